// Makes a release of the version in `package.json`: checks that it is ready, writes the SBOM and tags the commit. With `--dry-run` it
// does all of it in a copy of the last commit, the steps before it as well, prints what comes of it, and changes nothing here.
// The last line of standard output is the tag.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

const isDryRun = process.argv.includes("--dry-run");
const UNRELEASED = "Unreleased";
const BASELINE = "test/testdata/interface";
const MAX_BYTES = 268_435_456;
/** Maximum number of lines of the interface's comparison that are printed. */
const MAX_COMPARED = 100;
const AUTHOR = ["-c", "user.name=release", "-c", "user.email=release@localhost"];

/** Folder in which everything is done. */
let place = process.cwd();

function read(program, ...args) {
  return execFileSync(program, args, { cwd: place, encoding: "utf8", maxBuffer: MAX_BYTES }).trim();
}

const git = (...args) => read("git", ...args);
const textOf = (path) => readFileSync(join(place, path), "utf8");
const print = (name, text) => console.log(`${name.padEnd(12)} ${text}`);

/** Copies the last commit with its tags; packages are those of this tree. */
function copyOf(tree) {
  const copy = mkdtempSync(join(tmpdir(), "release-"));
  execFileSync("git", ["clone", "--quiet", tree, copy]);
  symlinkSync(resolve(tree, "node_modules"), join(copy, "node_modules"));
  return copy;
}

/** Returns the first section of the changelog: its heading, the text below, and the number of changes of each area. */
function latestSection() {
  const [, section = ""] = textOf("CHANGELOG.md").split(/^## /m);
  const end = section.indexOf("\n");
  const text = section.slice(end).trim();
  const countIn = (lines) => lines.split("\n").filter((line) => line.startsWith("- ")).length;
  const areas = text.split(/^### /m).slice(1);
  const counts = areas.map((area) => `${area.slice(0, area.indexOf("\n"))} ${countIn(area)}`);
  return { heading: section.slice(0, end).trim(), text, changes: countIn(text), areas: counts };
}

/** Lists the packages that production runs, as CycloneDX. */
function bill() {
  const args = ["sbom", "--package-lock-only", "--omit", "dev", "--sbom-format", "cyclonedx", "--workspaces=false"];
  return JSON.parse(read("npm", ...args));
}

/** Compares the interface with the last released one. Prints what clients would miss. */
function isCompatible() {
  const { status } = spawnSync("node", ["proto/breaking.ts"], { cwd: place, stdio: ["ignore", "inherit", "inherit"] });
  return status === 0;
}

/** Returns the files that name another version, or lack this one. */
function faultsOfVersion(version) {
  const faults = [];
  for (const [path, pattern] of [
    ["src/deploy/chart/Chart.yaml", /^(?:version|appVersion): "?([^"\n]+)"?$/gm],
    ["src/deploy/chart/values.yaml", /^ {2}tag: "?([^"\n]+)"?$/gm],
  ]) {
    const others = [...textOf(path).matchAll(pattern)].map(([, found]) => found).filter((found) => found !== version);
    if (others.length > 0) faults.push(`${path} says ${others.join(", ")}: put ${version} there`);
  }
  const fixture = `test/testdata/upgrade/${version}`;
  if (!existsSync(join(place, fixture)))
    faults.push(`${fixture} is missing: run node test/store/upgrade/make-fixture.ts`);
  return faults;
}

/** Returns what the interface gained and lost since the stored one, a line each. */
function compared() {
  return read("node", "proto/breaking.ts", "compare")
    .split("\n")
    .filter((line) => line !== "");
}

/** Writes the SBOM, and tags the commit with the section of the changelog. */
function tagCommit(tag, text, path, components, ...options) {
  mkdirSync(join(place, dirname(path)), { recursive: true });
  writeFileSync(join(place, path), `${JSON.stringify(components, null, 2)}\n`);
  const message = `${tag}\n\n${text}`;
  read("git", ...options, "tag", "--force", "--annotate", tag, "--message", message, "--cleanup=verbatim");
}

/** Does the steps before a release in the copy, and tags it. Prints the files that change and the tag. */
function rehearse({ version, tag, section, path, components }) {
  const changelog = textOf("CHANGELOG.md").replace(`## ${section.heading}\n`, `## ${version}\n`);
  writeFileSync(join(place, "CHANGELOG.md"), changelog);
  read("node", "proto/breaking.ts", "renew");
  git("add", "--all", "--", "CHANGELOG.md", BASELINE);
  for (const line of git("diff", "--cached", "--stat").split("\n")) if (line !== "") print("commit", line.trim());
  git(...AUTHOR, "commit", "--quiet", "--allow-empty", "--message", `release ${version}`);
  tagCommit(tag, section.text, path, components, ...AUTHOR);
  if (!isCompatible()) throw new Error("the renewed interface does not equal the present one");
  print("tag", "");
  console.log(git("cat-file", "-p", tag));
}

function release(tree) {
  const isClean = git("status", "--porcelain") === "";
  if (isDryRun) place = copyOf(tree);
  const { version } = JSON.parse(textOf("package.json"));
  const tag = `v${version}`;
  const section = latestSection();
  const isTagged = git("tag", "--list", tag) !== "";
  const components = bill();
  read("node", "proto/print-validate.ts");
  const isKept = isCompatible();
  const changes = compared();
  const path = `.generated/sbom-${version}.cdx.json`;

  const faults = [];
  if (section.heading !== version) {
    const found = section.heading === UNRELEASED ? "still says Unreleased" : `begins with ${section.heading}`;
    faults.push(`CHANGELOG.md ${found}: put ${version} there`);
  }
  if (section.changes === 0) faults.push("CHANGELOG.md lists no change");
  if (!isClean) faults.push(`the tree has changes${isDryRun ? ", which are left out here" : ""}: commit them first`);
  if (isTagged) faults.push(`${tag} exists: raise the version in package.json`);
  if (!isKept) faults.push("the interface lacks something that was released; see above");
  if (changes.length > 0) faults.push(`${BASELINE} holds an earlier interface: run npm run release:interface`);
  faults.push(...faultsOfVersion(version));

  print("release", `${tag} of ${git("rev-parse", "--short", "HEAD")}`);
  print("changelog", `${section.changes} changes under ${section.heading}: ${section.areas.join(", ")}`);
  print("SBOM", `${components.components.length} packages, CycloneDX ${components.specVersion}, to ${path}`);
  print("interface", `${isKept ? "keeps" : "BREAKS"} what was released`);
  const added = changes.filter((line) => line.startsWith("+")).length;
  print("baseline", `+${added} -${changes.length - added} since the stored one`);
  for (const line of changes.slice(0, MAX_COMPARED)) print("", line);
  if (changes.length > MAX_COMPARED) print("", `and ${changes.length - MAX_COMPARED} more`);
  for (const fault of faults) print("not ready", fault);

  if (isDryRun) rehearse({ version, tag, section, path, components });
  else if (faults.length === 0) tagCommit(tag, section.text, path, components);
  else process.exitCode = 1;
  console.log(isDryRun ? `would tag ${tag}` : faults.length === 0 ? `tagged ${tag}` : `did not tag ${tag}`);
}

try {
  release(process.cwd());
} finally {
  if (isDryRun && place !== process.cwd()) rmSync(place, { recursive: true, force: true });
}
