import { type DescField, type DescMethod, getOption } from "@bufbuild/protobuf";
import { access, Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import { comments } from "../../../gen/agentcontrol/v1/comments.js";
import { ErrorReasonSchema } from "../../../gen/agentcontrol/v1/error_reason_pb.js";
import { codeFromReason, codeName, ERROR_DOMAIN, ErrorReason, httpStatusFromReason } from "../../errors.ts";
import type { JsonSchema } from "./openapi-schema.ts";
import { JSON_TYPE } from "./request.ts";
import type { Route } from "./routes.ts";

/** Word of an `ErrorReason`: `AGENT_NOT_FOUND`. */
export type ReasonWord = keyof typeof ErrorReason;

/** Documentation of a reason in the proto. */
export interface ReasonText {
  readonly when: string;
  /** Example of a message to a caller. */
  readonly example: string;
}

const WORD = /\b[A-Z][A-Z_]{3,}\b/g;
const PARTS = /^(.*?) Example: "(.*)"\. [^.]*\.$/s;

/** Every reason, in the order of the proto. */
export const REASON_WORDS: readonly ReasonWord[] = ErrorReasonSchema.values
  .filter(({ number }) => number !== ErrorReason.UNSPECIFIED)
  .map(({ number }) => ErrorReason[number] as ReasonWord);

/** Returns the documentation in the comment of a reason. */
export function reasonText(word: ReasonWord): ReasonText {
  const comment = comments[`${ErrorReasonSchema.typeName}.ERROR_REASON_${word}`] ?? "";
  const [, when = comment, example = comment] = PARTS.exec(comment) ?? [];
  return { when, example };
}

const isReason = (word: string): word is ReasonWord => (REASON_WORDS as readonly string[]).includes(word);

/** Reasons for which any call may fail. They are described once. */
const OF_EVERY_CALL: readonly ReasonWord[] = [
  "KEY_MISSING",
  "KEY_INVALID",
  "OVERLOADED",
  "RATE_LIMITED",
  "TOO_MANY_WRONG_KEYS",
  "NOT_ACCEPTABLE",
  "INTERNAL",
  "STORE_UNAVAILABLE",
  "ENTRY_DAMAGED",
  "SHUTTING_DOWN",
  "DEADLINE_EXCEEDED",
];
/** Reasons that belong to no operation: the request reaches no operation, or is not answered by one. */
const OF_NO_OPERATION: readonly ReasonWord[] = [
  "CANCELLED",
  "ROUTE_NOT_FOUND",
  "METHOD_NOT_ALLOWED",
  "MALFORMED_REQUEST",
  "HEADERS_TOO_LARGE",
  "EXPECTATION_FAILED",
  "REQUEST_TIMED_OUT",
  "CSRF_TOKEN_INVALID",
  "INVITE_INVALID",
];
const OF_BODIES: readonly ReasonWord[] = [
  "MALFORMED_JSON",
  "UNKNOWN_FIELD",
  "INVALID_FIELD",
  "DUPLICATE_FIELD",
  "BODY_TOO_DEEP",
  "BODY_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
];
const OF_QUERIES: readonly ReasonWord[] = ["UNKNOWN_FIELD", "INVALID_FIELD", "DUPLICATE_FIELD"];
/** Reasons for which a field of a request may be refused. */
const OF_FIELDS: Readonly<Record<string, ReasonWord>> = {
  page_token: "INVALID_PAGE_TOKEN",
  agent_id: "AGENT_NOT_FOUND",
  grantor_agent_id: "AGENT_NOT_FOUND",
  department_id: "DEPARTMENT_NOT_FOUND",
  mandate_id: "MANDATE_NOT_FOUND",
  decision_id: "DECISION_NOT_FOUND",
  revocation_id: "REVOCATION_NOT_FOUND",
  incident_id: "INCIDENT_NOT_FOUND",
  webhook_id: "WEBHOOK_NOT_FOUND",
  workspace_id: "WORKSPACE_NOT_FOUND",
  key_id: "KEY_NOT_FOUND",
  value_id: "PERSONAL_VALUE_NOT_FOUND",
};
const SHORT_OF_FIELDS: Readonly<Record<string, ReasonWord>> = {
  escalation_id: "ESCALATION_NOT_FOUND",
  ...Object.fromEntries(
    ["session", "credential", "grant", "temporal_window", "intent_contract", "federation_token", "mcp_tool_policy"].map(
      (kind) => [`${kind}_id`, "AUTHORITY_NOT_FOUND"],
    ),
  ),
};

/** Returns the reasons that the comments of an RPC and of its request name. */
function reasonsInComments({ parent, name, input }: DescMethod): ReasonWord[] {
  const keys = [`${parent.typeName}.${name}`, ...input.fields.map((field) => `${input.typeName}.${field.name}`)];
  return keys.flatMap((key) => comments[key]?.match(WORD) ?? []).filter(isReason);
}

function reasonsOfField(field: DescField, route: Route, isOfMandate: boolean): readonly ReasonWord[] {
  const isInPath = route.pathFields.includes(field);
  // Targets that a mandate names are among its violations.
  if (isOfMandate && !isInPath) return [];
  const reason = OF_FIELDS[field.name] ?? (isInPath ? SHORT_OF_FIELDS[field.name] : undefined);
  return reason === undefined ? [] : [reason];
}

function reasonsOfKey({ input, ...method }: DescMethod): readonly ReasonWord[] {
  const { roles } = getOption(method as DescMethod, access);
  const isOfAgents = roles.includes(Role.AGENT);
  const namesAgent = input.fields.some(({ name }) => name === "agent_id" || name === "escalation_id");
  return isOfAgents && namesAgent ? ["ROLE_NOT_ALLOWED", "AGENT_NOT_ALLOWED"] : ["ROLE_NOT_ALLOWED"];
}

/** Returns the reasons for which a call of a route may fail, without the reasons of every call, in the order of the proto. */
export function reasonsOfRoute(route: Route): readonly ReasonWord[] {
  const { method, body, queryFields, pathFields } = route;
  const inComments = reasonsInComments(method);
  const isOfMandate = inComments.includes("MANDATE_INVALID");
  const found = new Set<ReasonWord>([
    ...inComments,
    ...method.input.fields.flatMap((field) => reasonsOfField(field, route, isOfMandate)),
    ...reasonsOfKey(method),
    ...(body === "none" ? [] : OF_BODIES),
    ...(queryFields.length === 0 ? [] : OF_QUERIES),
    ...(pathFields.length === 0 ? [] : (["INVALID_FIELD"] as const)),
  ]);
  return REASON_WORDS.filter((word) => found.has(word) && !OF_EVERY_CALL.includes(word));
}

const statusOf = (word: ReasonWord): number => httpStatusFromReason(ErrorReason[word]);

function errorContent(words: readonly ReasonWord[]): object {
  const examples = Object.fromEntries(words.map((word) => [word, { $ref: `#/components/examples/${word}` }]));
  return { schema: { $ref: "#/components/schemas/Error" }, examples };
}

function responseOf(words: readonly ReasonWord[]): object {
  const description = words.map((word) => `\`${word}\`: ${reasonText(word).when}`).join("\n\n");
  return { description, content: { [JSON_TYPE]: errorContent(words) } };
}

const nameOfShared = (status: number): string => `Error${status}`;
const sharedByStatus = Map.groupBy(OF_EVERY_CALL, statusOf);

/** Returns the responses of a failed call: for one of `words`, and for the reasons of every call. */
export function errorResponses(words: readonly ReasonWord[]): Readonly<Record<string, object>> {
  const responses: Record<string, object> = {};
  for (const status of sharedByStatus.keys())
    responses[status] = { $ref: `#/components/responses/${nameOfShared(status)}` };
  for (const [status, own] of Map.groupBy(words, statusOf))
    responses[status] = responseOf([...own, ...(sharedByStatus.get(status) ?? [])]);
  return { ...responses, default: { $ref: "#/components/responses/Error" } };
}

/** Responses of errors that every call shares. */
export const SHARED_ERROR_RESPONSES: Readonly<Record<string, object>> = {
  Error: {
    description: "The call failed. `reason` in the first detail says why, and stays the same over releases.",
    content: { [JSON_TYPE]: errorContent(OF_NO_OPERATION) },
  },
  ...Object.fromEntries([...sharedByStatus].map(([status, words]) => [nameOfShared(status), responseOf(words)])),
};

/** An error body for each reason. */
export const ERROR_EXAMPLES: Readonly<Record<string, object>> = Object.fromEntries(
  REASON_WORDS.map((word) => {
    const code = statusOf(word);
    const { example: message, when } = reasonText(word);
    const details = [{ reason: word, domain: ERROR_DOMAIN, metadata: {} }];
    const error = { code, status: codeName(codeFromReason(ErrorReason[word])), message, details };
    return [word, { summary: when, value: { ok: false, error } }];
  }),
);

const ERROR_INFO: JsonSchema = {
  type: "object",
  description: "Why the call failed; always the first detail.",
  required: ["reason", "domain", "metadata"],
  properties: {
    reason: { type: "string", enum: REASON_WORDS, description: "Stable; new ones may be added." },
    domain: { const: ERROR_DOMAIN },
    metadata: {
      type: "object",
      additionalProperties: { type: "string" },
      description: "The values in the message.",
    },
  },
};
const BAD_REQUEST: JsonSchema = {
  type: "object",
  description: "All fields at fault, sorted by path.",
  required: ["field_violations"],
  properties: {
    field_violations: {
      type: "array",
      items: {
        type: "object",
        required: ["field", "description", "reason"],
        properties: {
          field: { type: "string", description: "Path in the request, such as `rules[0].tool`." },
          description: { type: "string", description: "Why it is refused and what to change." },
          reason: { type: "string" },
        },
      },
    },
  },
};

/** Schemas of an error body, in the form of AIP-193. */
export const ERROR_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  Error: {
    type: "object",
    description: "The body of every response that is not a success.",
    required: ["ok", "error"],
    properties: {
      ok: { const: false },
      error: {
        type: "object",
        required: ["code", "status", "message", "details"],
        properties: {
          code: { type: "integer", description: "The HTTP status." },
          status: { type: "string", description: "The `google.rpc.Code`.", examples: ["INVALID_ARGUMENT"] },
          message: { type: "string", description: "One line for people; may change." },
          details: {
            type: "array",
            items: { anyOf: [{ $ref: "#/components/schemas/ErrorInfo" }, { $ref: "#/components/schemas/BadRequest" }] },
          },
        },
      },
    },
  },
  ErrorInfo: ERROR_INFO,
  BadRequest: BAD_REQUEST,
};
