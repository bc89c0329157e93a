import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  createFileRegistry,
  type DescMessage,
  type DescService,
  type FileRegistry,
  fromBinary,
} from "@bufbuild/protobuf";
import { type FileDescriptorSet, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

const ROOT = resolve(import.meta.dirname, "../../..");
const GOOGLE_API = join(ROOT, "node_modules/protobufjs/google/api");

/** Compiles proto files, given by name and text, with comments; `google/api` is at hand in its full form. */
export function compileProtos(files: Readonly<Record<string, string>>): FileDescriptorSet {
  const folder = mkdtempSync(join(tmpdir(), "rest-protos-"));
  try {
    addGoogleApi(folder);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    const buf = join(ROOT, "node_modules/@bufbuild/buf/bin/buf");
    const output = execFileSync(process.execPath, [buf, "build", folder, "-o", "-#format=binpb"], {
      maxBuffer: 1 << 26,
    });
    return fromBinary(FileDescriptorSetSchema, output);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// The http.proto at hand predates `response_body`.
function addGoogleApi(folder: string): void {
  const target = join(folder, "google/api");
  mkdirSync(target, { recursive: true });
  cpSync(join(GOOGLE_API, "annotations.proto"), join(target, "annotations.proto"));
  const http = readFileSync(join(GOOGLE_API, "http.proto"), "utf8");
  const complete = http.includes("response_body")
    ? http
    : http.replace("string body = 7;", "string body = 7; string response_body = 12;");
  writeFileSync(join(target, "http.proto"), complete);
}

/** A service of one-line methods on a message with the string fields `a`, `b` and `c`; each entry is the option's text. */
export function serviceWithRules(
  rules: Readonly<Record<string, string>>,
  kinds = { input: "M", output: "M" },
): DescService {
  const methods = Object.entries(rules).map(
    ([name, rule]) => `rpc ${name}(${kinds.input}) returns (${kinds.output}) { option (google.api.http) = {${rule}}; }`,
  );
  const text = `syntax = "proto3"; package t; import "google/api/annotations.proto";
    message M { string a = 1; string b = 2; M c = 3; repeated string d = 4; } service S { ${methods.join("\n")} }`;
  const service = createFileRegistry(compileProtos({ "t.proto": text })).getService("t.S");
  if (service === undefined) throw new Error("the service did not compile");
  return service;
}

/** The descriptors of `test/testdata/rest/library.proto`. */
export interface Library {
  readonly set: FileDescriptorSet;
  readonly registry: FileRegistry;
  readonly service: DescService;
  message(name: string): DescMessage;
}

/** Wraps compiled descriptors of the library. */
export function libraryFrom(set: FileDescriptorSet): Library {
  const registry = createFileRegistry(set);
  const service = registry.getService("resttest.v1.LibraryService");
  if (service === undefined) throw new Error("the library service is missing");
  return {
    set,
    registry,
    service,
    message(name) {
      const desc = registry.getMessage(`resttest.v1.${name}`);
      if (desc === undefined) throw new Error(`there is no message ${name}`);
      return desc;
    },
  };
}

let compiled: Library | undefined;

/** Compiles the library once for all test files. */
export function library(): Library {
  const text = () => readFileSync(join(ROOT, "test/testdata/rest/library.proto"), "utf8");
  compiled ??= libraryFrom(compileProtos({ "library.proto": text() }));
  return compiled;
}
