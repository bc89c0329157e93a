// Installs the packages that are missing or older than the lock file says. Runs on any Node, before a package is there.
// Argument `all`: those of tests, checks and builds too, which `.ci/package.json` lists; a start does without them. Never
// removes what the other form installed, so that one may run beside the other's programs.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";

const MODULES = "node_modules";
/** Written by npm once all packages are in place. */
const INSTALLED = join(MODULES, ".package-lock.json");
const PROGRESS_MS = 2_000;

const isWithTools = process.argv[2] === "all";

function namesIn(manifest) {
  const { dependencies, devDependencies } = JSON.parse(readFileSync(manifest, "utf8"));
  return Object.keys({ ...dependencies, ...devDependencies });
}

function isInstalled() {
  if (!existsSync(INSTALLED) || statSync(INSTALLED).mtimeMs < statSync("package-lock.json").mtimeMs) return false;
  const { packages } = JSON.parse(readFileSync(INSTALLED, "utf8"));
  const wanted = ["package.json", ...(isWithTools ? [".ci/package.json"] : [])].flatMap(namesIn);
  return wanted.every((name) => packages[`${MODULES}/${name}`] !== undefined);
}

/** Counts the packages that are unpacked, without those inside of others. */
function countUnpacked(folder) {
  const entries = existsSync(folder) ? readdirSync(folder) : [];
  const counts = entries.map((name) => {
    if (name.startsWith("@")) return countUnpacked(join(folder, name));
    return existsSync(join(folder, name, "package.json")) ? 1 : 0;
  });
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Finds a folder for npm's downloads: its own, or one of this checkout where that cannot be made, as in some containers. */
function cacheFolder() {
  const usual = process.env.npm_config_cache;
  try {
    mkdirSync(usual, { recursive: true });
    return usual;
  } catch {
    return resolve(".generated/npm");
  }
}

function install() {
  const startedAt = Date.now();
  console.error(`installing the packages that ${isWithTools ? "tests, checks and builds need" : "a start needs"}`);
  const progress = setInterval(() => {
    const seconds = Math.round((Date.now() - startedAt) / 1_000);
    console.error(`  ${countUnpacked(MODULES)} packages unpacked after ${seconds} s`);
  }, PROGRESS_MS);
  const output = "--loglevel=error --no-audit --no-fund --no-progress";
  const packages = isWithTools ? "--include=dev" : "--include=dev --workspaces=false";
  const npm = spawn(`npm install --no-save --prefer-offline ${packages} ${output}`, {
    shell: true,
    stdio: "inherit",
    env: { ...process.env, npm_config_cache: cacheFolder() },
  });
  npm.on("close", (code) => {
    clearInterval(progress);
    process.exitCode = code ?? 1;
  });
}

if (!isInstalled()) install();
