/**
 * Compares the interface with the last released one, which lies in `test/testdata/interface`: its descriptors, and the method and path
 * of each call over REST. Lists what a client of that release would miss, and then fails. With the argument `renew` it stores
 * the present interface as the released one instead. The protos that are printed or come from npm MUST be in place.
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

if (process.argv[2] === "renew") renew();
else if (!keepsReleased()) {
  console.error("the interface breaks clients of the last release; keep what they use, and add beside it");
  process.exitCode = 1;
}
