/**
 * Writes the protos of the interface with every file that they import to `dist/proto`, or to the folder that the first argument
 * names: `protoc -I` on it needs no other file. `google/protobuf` comes with protoc. `google/rpc` is left out: no file imports it,
 * and the libraries of every language have it.
 */
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { printValidate } from "./print-validate.ts";

const TOP = join(import.meta.dirname, "..");
const PROTO = import.meta.dirname;
const PROTOBUFJS = join(TOP, "node_modules", "protobufjs");
const VALIDATE = "buf/validate/validate.proto";
const IMPORT = /^import "([^"]+)";$/gm;
/** The package statement and the imports of a file. */
const HEAD = /^package [\w.]+;\n(?:\nimport "[^"]+";(?:\nimport "[^"]+";)*\n)?/m;

/** Licences of the exported files, each with the folder that it covers. */
const LICENCES: readonly (readonly [source: string, folder: string])[] = [
  [join(TOP, "LICENSE"), "."],
  [join(PROTOBUFJS, "google", "LICENSE"), "google"],
];

/** Returns the text of a proto, wherever it comes from. */
function read(path: string): string {
  if (path === VALIDATE) return printValidate();
  const own = join(PROTO, path);
  return existsSync(own) ? readFileSync(own, "utf8") : withOptions(path, readFileSync(join(PROTOBUFJS, path), "utf8"));
}

/**
 * Adds to a file of `google/api` the options that googleapis gives it. Without them the file would be another package in Go and Java
 * than the one in the libraries of those languages.
 */
function withOptions(path: string, text: string): string {
  const [name = ""] = /\w+(?=\.proto$)/.exec(path) ?? [];
  const options = [
    'option go_package = "google.golang.org/genproto/googleapis/api/annotations;annotations";',
    "option java_multiple_files = true;",
    `option java_outer_classname = "${name.charAt(0).toUpperCase()}${name.slice(1)}Proto";`,
    'option java_package = "com.google.api";',
  ];
  return `${text.trim().replace(HEAD, (head) => `${head}\n${options.join("\n")}\n`)}\n`;
}

/** Adds a file and its imports to the exported texts. */
function collect(path: string, texts: Map<string, string>): void {
  if (texts.has(path) || path.startsWith("google/protobuf/")) return;
  const text = read(path);
  texts.set(path, text);
  for (const [, imported = ""] of text.matchAll(IMPORT)) collect(imported, texts);
}

const output = resolve(process.argv[2] ?? join(TOP, "dist", "proto"));
const texts = new Map<string, string>();
for (const path of globSync("agentcontrol/**/*.proto", { cwd: PROTO })) collect(path, texts);

rmSync(output, { recursive: true, force: true });
for (const [path, text] of texts) {
  mkdirSync(dirname(join(output, path)), { recursive: true });
  writeFileSync(join(output, path), text);
}
for (const [source, folder] of LICENCES) copyFileSync(source, join(output, folder, "LICENSE"));
