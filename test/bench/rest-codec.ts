/**
 * Times the REST codec against `toJsonString` and `fromJsonString` of protobuf-es on the same messages in the same run.
 * Prints nanoseconds a message and the ratio; above 1 the REST codec is the faster one.
 */
import { createFileRegistry, type DescMessage, fromJsonString, type Message, toJsonString } from "@bufbuild/protobuf";
import { createJsonDecoder } from "../../src/server/rest/json-decoder.ts";
import { createJsonEncoder } from "../../src/server/rest/json-encoder.ts";
import { parseJson } from "../../src/server/rest/json-text.ts";
import { compileProtos } from "../server/rest/descriptors.ts";

const ROUNDS = 7;
const ROUND_MS = 120;

const PROTO = `syntax = "proto3"; package bench;
  import "google/protobuf/struct.proto"; import "google/protobuf/timestamp.proto";
  message Request { string action_type = 1; string action_content = 2; string agent_id = 3; google.protobuf.Struct metadata = 4;
    optional string tool = 5; optional string session_id = 6; optional string request_id = 7; }
  enum Decision { DECISION_UNSPECIFIED = 0; DECISION_ALLOW = 1; DECISION_BLOCK = 2; }
  message Reason { string rule = 1; optional string argument = 2; string sentence = 3; }
  message Response { Decision decision = 1; double trust_score = 2; string decision_id = 3; optional string escalation_id = 4;
    optional string policy_name = 5; int32 latency_ms = 6; repeated Reason reasons = 7; google.protobuf.Timestamp decided_at = 8; int64 seq = 9; }
  message Page { repeated Response decisions = 1; string next_page_token = 2; }`;

const REQUEST = {
  action_type: "payments.refund",
  action_content: 'refund order 4711 because the parcel never arrived, as the customer "Jürgen" reported',
  agent_id: "agt_01jq8vxk5mf3zr9w2c7d4t6hpa",
  metadata: {
    tool: "refund",
    arguments: { amount: 129.5, currency: "EUR", order_id: "4711", lines: [{ sku: "a-1", count: 2 }] },
  },
  tool: "refund",
  request_id: "018f6f1e-5a0b-7c3d-9e2f-1a2b3c4d5e6f",
};
const RESPONSE = {
  decision: "DECISION_ALLOW",
  trust_score: 50.2,
  decision_id: "dec_01jq8vxk5mf3zr9w2c7d4t6hpa",
  policy_name: "refunds up to 500",
  latency_ms: 3,
  reasons: [{ rule: "rules[0]", argument: "amount", sentence: "amount is at most 500" }],
  decided_at: "2026-01-31T12:00:00.123Z",
  seq: "123456",
};

const registry = createFileRegistry(compileProtos({ "bench.proto": PROTO }));
const encoder = createJsonEncoder();
const decoder = createJsonDecoder();

function nanosPerCall(work: () => unknown): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    let calls = 0;
    for (; performance.now() - start < ROUND_MS; calls += 50) for (let index = 0; index < 50; index++) work();
    best = Math.min(best, ((performance.now() - start) * 1e6) / calls);
  }
  return best;
}

function compare(name: string, ours: () => unknown, theirs: () => unknown): void {
  const [mine, base] = [nanosPerCall(ours), nanosPerCall(theirs)];
  console.log(
    `${name.padEnd(16)} ${mine.toFixed(0).padStart(7)} ns ${base.toFixed(0).padStart(7)} ns   ${(base / mine).toFixed(2)} x`,
  );
}

function message(name: string, json: object): { desc: DescMessage; value: Message; bytes: Buffer } {
  const desc = registry.getMessage(`bench.${name}`);
  if (desc === undefined) throw new Error(`there is no ${name}`);
  const value = fromJsonString(desc, JSON.stringify(json));
  const bytes = Buffer.from(encoder.messageWriter(desc)(value));
  return { desc, value, bytes };
}

console.log("                       ours  protobuf-es   ratio");
const page = { decisions: Array.from({ length: 50 }, () => RESPONSE), next_page_token: "x" };
for (const [name, json] of Object.entries({ Request: REQUEST, Response: RESPONSE, Page: page })) {
  const { desc, value, bytes } = message(name, json);
  const own = Buffer.from(toJsonString(desc, value, { useProtoFieldName: true }));
  const write = encoder.messageWriter(desc);
  const options = { useProtoFieldName: true, alwaysEmitImplicit: true };
  // Both ends at bytes, since a text that was pieced together costs its price only when it is flattened.
  compare(
    `encode ${name}`,
    () => Buffer.from(write(value)),
    () => Buffer.from(toJsonString(desc, value, options)),
  );
  compare(
    `decode ${name}`,
    () => decoder.decode(desc, parseJson(bytes, 64)),
    () => fromJsonString(desc, own.toString()),
  );
}
