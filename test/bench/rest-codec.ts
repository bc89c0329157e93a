/**
 * Times the REST codec against `toJsonString` and `fromJsonString` of protobuf-es on the same messages in the same run.
 * Prints nanoseconds a message and the ratio; above 1 the REST codec is the faster one.
 */
import { type DescMessage, fromJsonString, toJsonString } from "@bufbuild/protobuf";
import {
  InterceptRequestSchema,
  InterceptResponseSchema,
  ListDecisionsResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { readJsonAtOnce } from "../../src/json/read-json.ts";
import { JsonReaders, JsonWriters } from "../../src/server/rest/json.ts";

const ROUNDS = 7;
const ROUND_MS = 120;
const BOUNDS = { maxDepth: 64, maxValues: 60_000, hasUniqueMembers: true };

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
  reasons: [{ code: "argument", message: "amount is at most 500", rule: "rules[0]", argument: "amount" }],
};
const RECORD = {
  decision_id: "dec_01jq8vxk5mf3zr9w2c7d4t6hpa",
  decision: "DECISION_ALLOW",
  agent_id: "agt_01jq8vxk5mf3zr9w2c7d4t6hpa",
  action_type: "payments.refund",
  policy_name: "refunds up to 500",
  decided_at: "2026-01-31T12:00:00.123Z",
};
const PAGE = { decisions: Array.from({ length: 50 }, () => RECORD), next_page_token: "x" };

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

function compareReading(name: string, desc: DescMessage, json: object): void {
  const bytes = Buffer.from(JSON.stringify(json));
  const read = new JsonReaders().message(desc);
  compare(
    name,
    () => read(readJsonAtOnce(bytes.toString("utf8"), BOUNDS)),
    () => fromJsonString(desc, bytes.toString()),
  );
}

// Both ends at bytes, since a text that was pieced together costs its price only when it is flattened.
function compareWriting(name: string, desc: DescMessage, json: object): void {
  const message = fromJsonString(desc, JSON.stringify(json));
  const write = new JsonWriters().message(desc);
  const options = { useProtoFieldName: true, alwaysEmitImplicit: true };
  compare(
    name,
    () => Buffer.from(write(message)),
    () => Buffer.from(toJsonString(desc, message, options)),
  );
}

console.log("                       ours  protobuf-es   ratio");
compareReading("read Request", InterceptRequestSchema, REQUEST);
compareWriting("write Response", InterceptResponseSchema, RESPONSE);
compareWriting("write Page", ListDecisionsResponseSchema, PAGE);
