import { create, type JsonObject, toBinary, toJsonString } from "@bufbuild/protobuf";
import {
  type InterceptRequest,
  InterceptRequestSchema,
  InterceptStreamRequestSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";

/** The tool that every action of the load calls. */
export const TOOL = "payments.transfer";

const text = { type: "string" };

/** The schema of the tool's arguments. */
export const TOOL_SCHEMA: JsonObject = {
  type: "object",
  required: ["amount", "currency", "recipient"],
  properties: {
    amount: { type: "number", minimum: 0 },
    currency: { type: "string", enum: ["USD", "EUR", "GBP"] },
    recipient: { type: "object", properties: { name: text, iban: text } },
    reference: text,
    urgent: { type: "boolean" },
  },
};

const amountRule = (decision: string, operator: string, value: number): JsonObject => ({
  tool: TOOL,
  decision,
  conditions: { rules: [{ field: "amount", operator, value }] },
});

const limit = (scope: string, max_count: number, window_seconds: number): JsonObject => ({
  type: "RULE_TYPE_SEQUENCE",
  decision: "DECISION_ESCALATE",
  conditions: {
    mode: "SEQUENCE_MODE_VELOCITY",
    match_action_types: ["payment.*"],
    scope,
    max_count: String(max_count),
    window_seconds: String(window_seconds),
  },
});

/** A mandate as it is written: a name and rules in proto JSON. */
export interface WrittenMandate {
  readonly name: string;
  readonly mode: "enforce" | "observe";
  readonly rules: readonly JsonObject[];
}

const enforced = (name: string, ...rules: JsonObject[]): WrittenMandate => ({ name, mode: "enforce", rules });

/**
 * Ten mandates of mixed kinds, all of which look at every action of the load. Only the first decides anything, on 9 of
 * 256 actions; the limits never fire.
 */
export const MANDATES: readonly WrittenMandate[] = [
  enforced(
    "large payments",
    amountRule("DECISION_BLOCK", ">", 10_000),
    amountRule("DECISION_ESCALATE", "between", [5_000, 10_000] as never),
  ),
  enforced("known currencies", {
    tool: TOOL,
    decision: "DECISION_BLOCK",
    conditions: { rules: [{ field: "currency", operator: "not_in", value: ["USD", "EUR"] }] },
  }),
  enforced("no sandbox", {
    type: "RULE_TYPE_METADATA",
    decision: "DECISION_BLOCK",
    conditions: { rules: [{ field: "environment", operator: "==", value: "sandbox" }] },
  }),
  enforced("administration needs a human", {
    type: "RULE_TYPE_ACTION",
    decision: "DECISION_ESCALATE",
    conditions: { match_action_types: ["admin.*", "payment.reverse"] },
  }),
  enforced("no injected statements", {
    type: "RULE_TYPE_CONTENT",
    decision: "DECISION_BLOCK",
    conditions: { patterns: ["drop\\s+table", "ignore (all )?previous instructions"] },
  }),
  enforced("limit of an agent", limit("SCOPE_AGENT", 10_000_000, 60)),
  enforced("limit of a department", limit("SCOPE_DEPARTMENT", 10_000_000, 10)),
  enforced("limit of the workspace", limit("SCOPE_WORKSPACE", 100_000_000, 60)),
  enforced("no trust, no payment", {
    type: "RULE_TYPE_TRUST",
    decision: "DECISION_ESCALATE",
    conditions: { below: 5 },
  }),
  { name: "smaller payments", mode: "observe", rules: [amountRule("DECISION_BLOCK", ">", 300)] },
];

/** The tools that mandates on other tools are about. */
export const OTHER_TOOLS = 1_000;

/** The name of one of them. */
export const otherTool = (index: number): string => `tools.other-${index % OTHER_TOOLS}`;

/** One of many mandates on tools that the load never calls. */
export const otherMandate = (index: number): WrittenMandate =>
  enforced(`on another tool ${index}`, { ...amountRule("DECISION_BLOCK", ">", index), tool: otherTool(index) });

/** Holds the place of a `request_id` in a message that was serialised beforehand. */
export const PLACEHOLDER_ID = "00000000-0000-4000-8000-000000000000";

const ACTION_TYPES = ["payment.send", "payment.refund", "payment.schedule"];
/** Requests that are serialised beforehand, at least; each caller walks through all of them. */
const LEAST_REQUESTS = 3_200;

function amountOf(mark: number): number {
  if (mark % 32 === 3) return 20_000;
  return mark % 256 === 7 ? 7_500 : 20 + (mark % 400);
}

function requestOf(index: number, agentIds: readonly string[]): InterceptRequest {
  // Of any agent's actions the same share is blocked, whatever the number of agents.
  const mark = index + Math.floor(index / agentIds.length);
  return create(InterceptRequestSchema, {
    actionType: ACTION_TYPES[index % ACTION_TYPES.length] as string,
    actionContent: `Pay invoice ${4_000 + index} to the supplier named on it, as agreed in the order of last week`,
    agentId: agentIds[index % agentIds.length] as string,
    tool: TOOL,
    metadata: {
      environment: "production",
      arguments: {
        amount: amountOf(mark),
        currency: index % 3 === 0 ? "USD" : "EUR",
        recipient: { name: `Supplier ${index % 97}`, iban: "DE02120300000000202051" },
        reference: `invoice ${4_000 + index}`,
        urgent: index % 5 === 0,
      },
    },
  });
}

/** What the agents of a workspace attempt, in turn: every agent acts, and all alike. */
export function requestsOf(agentIds: readonly string[]): InterceptRequest[] {
  const count = Math.max(LEAST_REQUESTS, agentIds.length);
  return Array.from({ length: count }, (_, index) => requestOf(index, agentIds));
}

/** What the agents of a workspace attempt in turn with a content of a length and nothing else, which the limits count too. */
export function plainRequestsOf(agentIds: readonly string[], contentLength: number): InterceptRequest[] {
  return agentIds.map((agentId, index) =>
    create(InterceptRequestSchema, {
      actionType: ACTION_TYPES[0] as string,
      actionContent: `Pay invoice ${4_000 + index} as agreed. `.repeat(contentLength).slice(0, contentLength),
      agentId,
    }),
  );
}

/** The binary form of a unary request. */
export const unaryBytes = (request: InterceptRequest): Buffer => Buffer.from(toBinary(InterceptRequestSchema, request));

/** The binary form of a request on a stream, with the placeholder for its `request_id`. */
export function streamBytes(request: InterceptRequest): Buffer {
  const intercept = { ...request, requestId: PLACEHOLDER_ID };
  return Buffer.from(toBinary(InterceptStreamRequestSchema, create(InterceptStreamRequestSchema, { intercept })));
}

/** The JSON form of a request, in one line. */
export const jsonOf = (request: InterceptRequest): string =>
  toJsonString(InterceptRequestSchema, request, { useProtoFieldName: true });
