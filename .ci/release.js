// Makes a release of the version in `package.json`: checks that it is ready and tags the commit. With `--dry-run` it tells what
// it would do, and changes nothing. The last line of standard output is the tag.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const isDryRun = process.argv.includes("--dry-run");
const UNRELEASED = "Unreleased";
const MAX_BYTES = 268_435_456;

const read = (program, ...args) => execFileSync(program, args, { encoding: "utf8", maxBuffer: MAX_BYTES }).trim();
const faults = [];

/** Returns the first section of the changelog: its heading, and the text below. */
function latestSection() {
  const [, section = ""] = readFileSync("CHANGELOG.md", "utf8").split(/^## /m);
  const end = section.indexOf("\n");
  return { heading: section.slice(0, end).trim(), text: section.slice(end).trim() };
}

/** Lists the packages that production runs, as CycloneDX. */
function bill() {
  const args = ["sbom", "--package-lock-only", "--omit", "dev", "--sbom-format", "cyclonedx", "--workspaces=false"];
  return JSON.parse(read("npm", ...args));
}

/** Compares the interface with the last released one. */
function isCompatible() {
  read("npm", "run", "--silent", "validate-proto");
  return spawnSync("node", ["proto/breaking.ts"], { stdio: ["ignore", "inherit", "inherit"] }).status === 0;
}

const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const tag = `v${version}`;
const { heading, text } = latestSection();
const changes = text.split("\n").filter((line) => line.startsWith("- ")).length;
const isClean = read("git", "status", "--porcelain") === "";
const isTagged = read("git", "tag", "--list", tag) !== "";
const components = bill();
const isKept = isCompatible();
const path = `.generated/sbom-${version}.cdx.json`;

if (heading !== version) {
  const found = heading === UNRELEASED ? "still says Unreleased" : `begins with ${heading}`;
  faults.push(`CHANGELOG.md ${found}: put ${version} there`);
}
if (changes === 0) faults.push("CHANGELOG.md lists no change");
if (!isClean) faults.push("the tree has changes: commit them first");
if (isTagged) faults.push(`${tag} exists: raise the version in package.json`);
if (!isKept) faults.push("the interface lacks something that was released; see above");

console.log(`release      ${tag} of ${read("git", "rev-parse", "--short", "HEAD")}`);
console.log(`changelog    ${changes} changes under ${heading}`);
console.log(`SBOM         ${components.components.length} packages, CycloneDX ${components.specVersion}, to ${path}`);
console.log(
  `interface    ${isKept ? "keeps" : "BREAKS"} what was released; npm run release:interface renews the stored one`,
);
for (const fault of faults) console.log(`not ready    ${fault}`);

if (!isDryRun && faults.length === 0) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(components, null, 2)}\n`);
  execFileSync("git", ["tag", "--annotate", tag, "--message", `${tag}\n\n${text}`, "--cleanup=verbatim"]);
}
console.log(isDryRun ? `would tag ${tag}` : faults.length === 0 ? `tagged ${tag}` : `did not tag ${tag}`);
if (!isDryRun && faults.length > 0) process.exitCode = 1;
