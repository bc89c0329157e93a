/**
 * Compares the interface with the last released one, which lies in `test/testdata/interface`: its descriptors, and the method and path
 * of each call over REST. Lists what a client of that release would miss, and then fails. With the argument `compare` it prints
 * instead what came (`+`) and went (`-`) since that release, and with `renew` it stores the present interface as the released one.
 * The protos that are printed or come from npm MUST be in place.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFileRegistry, type DescMethod, fromBinary, getOption, hasOption } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { http } from "../gen/google/api/annotations_pb.js";

const TOP = join(import.meta.dirname, "..");
const BUF = join(TOP, "node_modules", ".bin", "buf");
const RELEASED = join(TOP, "test", "testdata", "interface");
const DESCRIPTORS = join(RELEASED, "descriptors.binpb");
const REST = join(RELEASED, "rest.txt");
const MAX_BYTES = 67_108_864;

/** Builds the descriptors of our protos and of those that they import. */
function build(...options: readonly string[]): Buffer {
  const argv = ["build", "proto", "-o", "-#format=binpb", ...options];
  return execFileSync(BUF, argv, { cwd: TOP, maxBuffer: MAX_BYTES });
}

/** Returns a line for each method and path over REST, with its RPC and the part of the request that is the body. */
function restLines(descriptors: Uint8Array): readonly string[] {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
  const methods = [...registry].flatMap((desc) => (desc.kind === "service" ? desc.methods : []));
  return methods.filter((method) => hasOption(method, http)).flatMap(linesOf);
}

function linesOf(method: DescMethod): readonly string[] {
  const rule = getOption(method, http);
  return [rule, ...rule.additionalBindings].map(({ pattern, body }) => {
    const call = `${pattern.case?.toUpperCase()} ${pattern.value as string} ${method.parent.name}.${method.name}`;
    return body === "" ? call : `${call} body=${body}`;
  });
}

function renew(): void {
  const descriptors = build("--exclude-source-info");
  mkdirSync(RELEASED, { recursive: true });
  writeFileSync(DESCRIPTORS, descriptors);
  writeFileSync(REST, `${restLines(descriptors).join("\n")}\n`);
}

/** Tests whether clients of the released interface can use the present one. Prints what they would miss. */
function keepsReleased(): boolean {
  const descriptors = build();
  // An image on both sides: buf finds no break of a workspace with several modules against an image.
  const argv = ["breaking", "-#format=binpb", "--against", DESCRIPTORS, "--exclude-imports"];
  const { status } = spawnSync(BUF, argv, { cwd: TOP, input: descriptors, stdio: ["pipe", "inherit", "inherit"] });
  const lines = new Set(restLines(descriptors));
  const missing = readFileSync(REST, "utf8")
    .split("\n")
    .filter((line) => line !== "" && !lines.has(line));
  for (const line of missing) console.error(`REST lacks what was released: ${line}`);
  return status === 0 && missing.length === 0;
}

/** Returns a line for each element of our interface. */
function elementsOf(descriptors: Uint8Array): readonly string[] {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
  const own = [...registry].filter(({ typeName }) => typeName.startsWith("agentcontrol."));
  return own.flatMap((desc) => {
    const name = desc.typeName.slice("agentcontrol.v1.".length);
    if (desc.kind === "service") return desc.methods.map((method) => `call    ${name}.${method.name}`);
    if (desc.kind === "message") return desc.fields.map((field) => `field   ${name}.${field.name} = ${field.number}`);
    if (desc.kind === "enum") return desc.values.map((value) => `value   ${value.name} = ${value.number}`);
    return [];
  });
}

function compare(): void {
  const linesFrom = (descriptors: Uint8Array): readonly string[] => [
    ...elementsOf(descriptors),
    ...restLines(descriptors).map((line) => `path    ${line}`),
  ];
  const before = linesFrom(readFileSync(DESCRIPTORS));
  const now = linesFrom(build("--exclude-source-info"));
  for (const [sign, lines, others] of [
    ["+", now, new Set(before)],
    ["-", before, new Set(now)],
  ] as const) {
    for (const line of lines.filter((each) => !others.has(each)).sort()) console.log(`${sign} ${line}`);
  }
}

if (process.argv[2] === "renew") renew();
else if (process.argv[2] === "compare") compare();
else if (!keepsReleased()) {
  console.error("the interface breaks clients of the last release; keep what they use, and add beside it");
  process.exitCode = 1;
}
