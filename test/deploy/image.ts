/*
 * Builds the production image with Debian's `buildah` on a base of `debootstrap`, and runs it: `node test/deploy/image.ts`, as root.
 * Prints its size beside the base. Fails if it holds a package of builds or tests or a secret, runs as root, or does not decide.
 * The base is kept in `buildah` for the next run. Not part of the tests: it takes ten minutes.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../support/free-port.ts";

const ROOT = join(import.meta.dirname, "../..");
const DEPLOY = join(ROOT, "src/deploy");
const BASE = "localhost/agent-control-plane-base:bookworm";
const IMAGE = "localhost/agent-control-plane:checked";
/** Megabytes that the image may hold beside its base. */
const MAX_MB = 450;
/** Milliseconds for a first start with the embedded database. */
const START_LIMIT_MS = 300_000;
/** Packages of builds and tests, of which none may be left. */
const NOT_IN_PRODUCTION = [
  ".ci",
  "agent-control-plane-ci",
  "@biomejs/biome",
  "@bufbuild/buf",
  "chai",
  "mocha",
  "playwright-core",
  "react",
  "typescript",
  "vite",
];

const scratch = mkdtempSync(join(tmpdir(), "acp-image-"));
process.once("exit", () => rmSync(scratch, { recursive: true, force: true }));

function run(program: string, ...args: readonly string[]): string {
  return execFileSync(program, args, {
    cwd: ROOT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 2 ** 28,
  }).trim();
}

function assertTrue(isTrue: boolean, what: string): void {
  if (!isTrue) throw new Error(`it is not so that ${what}`);
  console.log(`  ${what}`);
}

/** Returns the megabytes of an image. */
const sizeOf = (image: string): number =>
  Number(/"size": "([\d.]+) MB"/.exec(run("buildah", "images", "--json", image))?.[1]);

/** Makes the base: Debian 12 as `debian:bookworm-slim` has it, but for its documentation. */
function createBase(): void {
  if (run("buildah", "images", "--quiet", "--filter", `reference=${BASE}`) !== "") return;
  console.log("making the base");
  const folder = join(scratch, "base");
  run("debootstrap", "--variant=minbase", "bookworm", folder);
  const container = run("buildah", "from", "scratch");
  run("buildah", "add", "--quiet", container, folder, "/");
  run("buildah", "commit", "--quiet", "--rm", container, BASE);
}

/** Options by which `npm` in the build trusts the certificates of `NODE_EXTRA_CA_CERTS`, where this machine needs some. */
function certificateOptions(): string[] {
  const file = process.env.NODE_EXTRA_CA_CERTS;
  if (file === undefined) return [];
  const settings = join(scratch, "npmrc");
  writeFileSync(settings, "cafile=/run/npm-certificates.crt\n");
  return ["--volume", `${file}:/run/npm-certificates.crt:ro`, "--volume", `${settings}:/root/.npmrc:ro`];
}

function build(): void {
  console.log("building the image");
  const file = join(DEPLOY, "Containerfile");
  const ignored = ["--ignorefile", `${file}.dockerignore`];
  const options = [
    "--isolation",
    "chroot",
    // OCI's own format has no health check.
    "--format",
    "docker",
    "--layers",
    "--build-arg",
    `BASE=${BASE}`,
    ...certificateOptions(),
    ...ignored,
  ];
  run("buildah", "build", ...options, "--file", file, "--tag", IMAGE, ".");
}

/** Runs a program in the image's files, which it cannot change, as the image's account. */
function inImage(root: string, env: Readonly<Record<string, string>>, ...command: readonly string[]) {
  const account = ["--unshare-user", "--unshare-pid", "--uid", "10001", "--gid", "10001"];
  const files = ["--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev"];
  const own = ["--tmpfs", "/tmp", "--tmpfs", "/var/lib/agent-control-plane"];
  const variables = Object.entries({ PATH: "/usr/local/bin:/usr/bin:/bin", ...env }).flatMap((each) => [
    "--setenv",
    ...each,
  ]);
  const options = [...account, ...files, ...own, "--clearenv", ...variables, "--chdir", "/app", "--die-with-parent"];
  return spawn("bwrap", [...options, ...command], { stdio: ["ignore", "pipe", "inherit"] });
}

async function assertDecides(root: string, env: Readonly<Record<string, string>>): Promise<void> {
  const http = await freePort();
  const ports = {
    ACP_HTTP_PORT: `${http}`,
    ACP_GRPC_PORT: `${await freePort()}`,
    ACP_ADMIN_KEY: "the-key-of-the-image",
  };
  const child = inImage(root, { ...env, ...ports, ACP_HOST: "127.0.0.1" }, "node", "dist/src/main.js");
  try {
    let output = "";
    const timer = setTimeout(() => child.kill("SIGKILL"), START_LIMIT_MS);
    for await (const text of child.stdout.setEncoding("utf8") as AsyncIterable<string>) {
      output += text;
      if (output.includes('"msg":"listening"')) break;
    }
    clearTimeout(timer);
    const [, command = ""] = /^ *(curl .*)$/m.exec(output) ?? [];
    const answer = run("bash", "-c", command.replace("$ACP_ADMIN_KEY", ports.ACP_ADMIN_KEY));
    assertTrue(answer.includes('"decision":"allow"'), "it decides: the command that it prints answers allow");
    const [checked] = (await once(inImage(root, { ...env, ...ports }, "node", "/app/healthcheck.js"), "exit")) as [
      number,
    ];
    assertTrue(checked === 0, "its health check finds it");
  } finally {
    child.kill("SIGTERM");
  }
}

createBase();
build();
const container = run("buildah", "from", IMAGE);
try {
  const root = run("buildah", "mount", container);
  const { Docker } = JSON.parse(run("buildah", "inspect", "--type", "image", IMAGE)) as {
    Docker: { config: { User: string; Env: string[]; Healthcheck: { Test: string[] } } };
  };
  const { config } = Docker;
  assertTrue(config.Healthcheck.Test[0] === "CMD", "it has a health check, which needs no shell");
  assertTrue(config.User === "10001:10001", "it runs as an account of its own");
  assertTrue(
    !config.Env.some((each) => /_(KEY|TOKEN|SECRET|PASSWORD|URL)=/.test(each)),
    "its environment holds no secret",
  );
  const left = NOT_IN_PRODUCTION.filter((name) => existsSync(join(root, "app/node_modules", name)));
  assertTrue(left.length === 0, `it holds no package of builds and tests${left.map((name) => ` (${name})`).join()}`);
  const secrets = globSync("app/**/{.data,.git,*.pem,.npmrc,admin-key}", {
    cwd: root,
    exclude: (path) => `${path}`.includes("node_modules"),
  });
  assertTrue(secrets.length === 0, `its files hold no key or history${secrets.join()}`);
  const mb = Math.round(sizeOf(IMAGE) - sizeOf(BASE));
  console.log(`  it holds ${mb} MB beside its base of ${sizeOf(BASE)} MB`);
  assertTrue(mb <= MAX_MB, `these are at most ${MAX_MB} MB`);
  await assertDecides(root, Object.fromEntries(config.Env.map((each) => each.split(/=(.*)/s) as [string, string])));
} finally {
  run("buildah", "rm", container);
}
