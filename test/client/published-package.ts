import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const ROOT = join(import.meta.dirname, "..", "..");
const APP = join(ROOT, "test/testdata/client/app");
const run = promisify(execFile);

/** The client as it is published, in a project of a user who has installed it. */
export interface PublishedPackage {
  /** The built folder. */
  readonly folder: string;
  readonly tarball: string;
  /** An otherwise empty project with the package, and the programs of `testdata/client/app`. */
  readonly project: string;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A JavaScript runtime that npm brings. */
export interface Runtime {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** Runs npm, which may fetch packages. */
async function npm(cwd: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await run("npm", [...args, "--no-audit", "--no-fund", "--loglevel=error"], { cwd });
  return stdout.trim();
}

/** Makes a project that depends on nothing. */
async function emptyProject(folder: string): Promise<string> {
  await mkdir(folder);
  await writeFile(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  return folder;
}

/** Builds and packs the client, and installs the tarball in an empty project. */
export async function publishPackage(): Promise<PublishedPackage> {
  const work = await mkdtemp(join(tmpdir(), "acp-client-"));
  const folder = join(work, "client");
  await run("npm", ["run", "--silent", "build:client", "--", folder], { cwd: ROOT });
  const packed = await npm(folder, "pack", "--silent", "--pack-destination", work);
  const tarball = join(work, packed.split("\n").at(-1) ?? "");
  const project = await emptyProject(join(work, "project"));
  await npm(project, "install", "--prefer-offline", tarball);
  for (const file of await readdir(APP)) await cp(join(APP, file), join(project, file));
  return {
    folder,
    tarball,
    project,
    [Symbol.asyncDispose]: () => rm(work, { recursive: true, force: true }),
  };
}

/** Adds a package to a project. */
export async function install(project: string, ...packages: readonly string[]): Promise<void> {
  await npm(project, "install", "--prefer-offline", ...packages);
}

/** Names of the packages in a project, `@scope/name`. */
export async function installedIn(project: string): Promise<string[]> {
  const root = join(project, "node_modules");
  const names = (await readdir(root)).filter((name) => !name.startsWith("."));
  const scoped = names.filter((name) => name.startsWith("@"));
  const inScopes = await Promise.all(
    scoped.map(async (scope) => (await readdir(join(root, scope))).map((name) => `${scope}/${name}`)),
  );
  return [...names.filter((name) => !name.startsWith("@")), ...inScopes.flat()].sort();
}

/** Installs the runtimes in a folder: Node 22 and 20, Deno and Bun; the tests themselves run on Node 24. */
export async function installRuntimes(folder: string): Promise<readonly Runtime[]> {
  await emptyProject(folder);
  await npm(folder, "install", "--prefer-offline", "node22@npm:node@22", "node20@npm:node@20", "deno@2", "bun@1");
  const bin = join(folder, "node_modules/.bin");
  return [
    { name: "Node 24", command: process.execPath, args: [] },
    { name: "Node 22", command: join(folder, "node_modules/node22/bin/node"), args: [] },
    { name: "Node 20", command: join(folder, "node_modules/node20/bin/node"), args: [] },
    { name: "Deno", command: join(bin, "deno"), args: ["run", "--allow-all", "--no-lock"] },
    { name: "Bun", command: join(bin, "bun"), args: ["run"] },
  ];
}

/** Runs a program of the project; gives what it printed. */
export async function runOn(
  { command, args }: Runtime,
  project: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const own = { DENO_DIR: join(project, ".deno"), DENO_NO_UPDATE_CHECK: "1" };
  const options = { cwd: project, env: { ...process.env, ...own, ...env }, timeout: 60_000 };
  return (await run(command, [...args, "main.mjs"], options)).stdout.trim();
}
