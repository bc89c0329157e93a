import { createHash, randomUUID } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

// Builds the dashboard unless the folder holds a build of the same files. Argument: the folder to build into.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SOURCES = [
  "src/dashboard",
  "src/client",
  "src/explain",
  "src/verify",
  "src/notation",
  "gen",
  "package-lock.json",
];
const DIGEST_FILE = "digest";
/** Descriptor of the rules of fields, which is a tenth of what the first screen would load, and what stands for it. */
const FIELD_RULES = "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
const NO_FIELD_RULES = "src/dashboard/field-rules.ts";
/** Licence of the font, which goes wherever the font goes. */
const FONT_LICENSE = "node_modules/@fontsource-variable/geist/LICENSE";

const out = resolve(ROOT, process.argv[2] ?? ".generated/dashboard");

async function filesBelow(path: string): Promise<readonly string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) return [path];
  return entries.flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : [])).sort();
}

async function digestOfSources(): Promise<string> {
  const digest = createHash("sha256");
  for (const source of SOURCES) {
    for (const file of await filesBelow(join(ROOT, source)))
      digest.update(file.slice(ROOT.length)).update(await readFile(file));
  }
  return digest.digest("hex");
}

async function buildInto(folder: string): Promise<void> {
  // Loading it takes longer than finding that nothing has changed.
  const { build } = await import("vite");
  await build({
    root: join(ROOT, "src/dashboard"),
    configFile: false,
    logLevel: "error",
    resolve: { alias: { [FIELD_RULES]: join(ROOT, NO_FIELD_RULES) } },
    build: {
      outDir: folder,
      emptyOutDir: true,
      target: "es2023",
      // The first browsers that support `light-dark()`; older targets get rules that ignore the theme switch of the page.
      cssTarget: ["chrome123", "firefox120", "safari17.5"],
      modulePreload: { polyfill: false },
      assetsInlineLimit: 0,
    },
  });
}

const digest = await digestOfSources();
const built = await readFile(join(out, DIGEST_FILE), "utf8").catch(() => "");
if (built !== digest) {
  console.error("building the dashboard");
  // Two starts at once build side by side; each moves a complete folder into place.
  const folder = `${out}.${randomUUID()}`;
  await mkdir(dirname(out), { recursive: true });
  await buildInto(folder);
  await copyFile(join(ROOT, FONT_LICENSE), join(folder, "FONT-LICENSE"));
  await writeFile(join(folder, DIGEST_FILE), digest);
  await rm(out, { recursive: true, force: true });
  await rename(folder, out).catch(() => rm(folder, { recursive: true, force: true }));
}
