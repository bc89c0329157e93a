import { randomUUID } from "node:crypto";
import { chmod, cp, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type Account, canReach, runAs } from "./embedded-postgres-account.ts";

/** The programs that run the embedded PostgreSQL, by absolute path. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

interface Package {
  /** Directory of the package, with `native/bin`, `native/lib` and `native/share`. */
  readonly directory: string;
  readonly version: string;
}

const PLATFORM = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;

async function findPackage(): Promise<Package> {
  const name = `@embedded-postgres/${PLATFORM}`;
  try {
    // It is a dependency of `embedded-postgres`, so it need not be visible from here.
    const outer = createRequire(import.meta.url).resolve("embedded-postgres");
    const directory = dirname(dirname(createRequire(outer).resolve(name)));
    const { version } = JSON.parse(await readFile(join(directory, "package.json"), "utf8"));
    return { directory, version };
  } catch (cause) {
    const message = `the embedded postgresql is not installed for \`${PLATFORM}\`: install \`${name}\` or set DATABASE_URL`;
    throw new ControlPlaneError(
      ErrorReason.STORE_UNAVAILABLE,
      message,
      { platform: PLATFORM, package: name },
      { cause },
    );
  }
}

function binariesIn(native: string): Binaries {
  return { initdb: join(native, "bin", "initdb"), postgres: join(native, "bin", "postgres") };
}

async function isUsable(native: string, account: Account | undefined): Promise<boolean> {
  try {
    const binaries = binariesIn(native);
    await Promise.all(Object.values(binaries).map((program) => runAs(account, program, ["--version"])));
    return !account || (await canReach(account, join(native, "share", "postgresql", "postgres.bki")));
  } catch {
    return false;
  }
}

/** An installation without scripts leaves out the links between library names, a strict umask the modes. */
async function repair(native: string): Promise<void> {
  for (const entry of await readdir(native, { recursive: true, withFileTypes: true })) {
    const isOpen = entry.isDirectory() || basename(entry.parentPath) === "bin";
    if (!entry.isSymbolicLink()) await chmod(join(entry.parentPath, entry.name), isOpen ? 0o755 : 0o644);
  }
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]"),
  );
  for (const { source, target } of links) {
    await symlink(basename(source), join(native, target.replace(/^native\//, ""))).catch(ignoring("EEXIST"));
  }
}

function ignoring(...codes: readonly string[]): (error: NodeJS.ErrnoException) => void {
  return (error) => {
    if (!codes.includes(error.code ?? "")) throw error;
  };
}

async function install(native: string, target: string): Promise<void> {
  const staging = `${target}.${randomUUID()}`;
  try {
    await cp(native, staging, { recursive: true, verbatimSymlinks: true });
    await chmod(staging, 0o755);
    await repair(staging);
    // INVARIANT: `target` appears complete or not at all; whoever comes second drops its own copy.
    await rename(staging, target).catch(ignoring("ENOTEMPTY", "EEXIST"));
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/**
 * The programs as the account can run them: in place, or copied once per version into `home` when the
 * installed ones are closed to it or incomplete. Throws STORE_UNAVAILABLE when they do not run here at all.
 */
export async function openBinaries(account: Account | undefined, home: string): Promise<Binaries> {
  const { directory, version } = await findPackage();
  const installed = join(directory, "native");
  if (await isUsable(installed, account)) return binariesIn(installed);
  const copy = join(home, `postgresql-${PLATFORM}-${version}`);
  const exists = await stat(copy).then(
    () => true,
    () => false,
  );
  if (!exists) {
    await install(installed, copy);
  }
  if (await isUsable(copy, account)) return binariesIn(copy);
  const cause = await runAs(account, binariesIn(copy).postgres, ["--version"]).catch((error: unknown) => error);
  throw new ControlPlaneError(
    ErrorReason.STORE_UNAVAILABLE,
    `the embedded postgresql does not run on this system from \`${copy}\`: set DATABASE_URL`,
    { directory: copy },
    { cause },
  );
}
