import { type DescField, type DescMessage, type JsonObject, type JsonValue, ScalarType } from "@bufbuild/protobuf";
import { enumWordsFromDesc } from "./enum-words.ts";
import { canBeNull, type Direction, keywordsFromRules } from "./openapi-schema.ts";

const ID = "06evkq1r5dw7n3zt8m2xc9p4b0";
const AT = "2026-11-24T09:30:00Z";
const ARGUMENTS = { amount: 900, currency: "EUR", to: "ACME" };
const INPUT_SCHEMA = {
  type: "object",
  properties: {
    amount: { type: "number" },
    currency: { type: "string", enum: ["EUR", "USD"] },
    to: { type: "string" },
  },
  required: ["amount", "currency", "to"],
};
const ACTION = { action_type: "payment.send", tool: "send_payment", metadata: { arguments: ARGUMENTS } };
const RULE = {
  type: "argument",
  tool: "send_payment",
  decision: "escalate",
  conditions: { operator: "AND", rules: [{ field: "amount", operator: ">", value: 500, currency: "EUR" }] },
};
const MANDATE = { name: "large payments need a person", rules: [RULE] };
const REASON = {
  code: "CONDITION_HELD",
  message: "`amount > 500 EUR` holds",
  mandate_id: `mnd_${ID}`,
  mandate_name: MANDATE.name,
  rule: "rules[0].conditions.rules[0]",
  argument: "amount",
  would_pass: "would allow at amount <= 500 EUR",
};
const DIGEST = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

/** Prefixes of ids, by the name of the field without `_id`. */
const PREFIXES: Readonly<Record<string, string>> = {
  agent: "agt",
  decision: "dec",
  escalation: "esc",
  revocation: "rev",
  incident: "inc",
  mandate: "mnd",
  department: "dep",
  session: "ses",
  credential: "crd",
  grant: "grt",
  temporal_window: "tmw",
  key: "key",
  intent_contract: "itc",
  federation_token: "fed",
  mcp_tool_policy: "mtp",
  webhook: "wh",
  value: "val",
  grantor_agent: "agt",
  grantee_agent: "agt",
  parent_grant: "grt",
  replaces_mandate: "mnd",
  test: "tst",
};

/** Example values, by the name of a field. */
const VALUES: Readonly<Record<string, JsonValue>> = {
  workspace_id: "default",
  request_id: "0193a1f0-5b6c-7d8e-9f00-112233445566",
  tool: "send_payment",
  action_type: "payment.send",
  action_content: "pay 900 EUR to ACME",
  framework: "langchain",
  name: "payments",
  on_behalf_of: `agt_${ID}`,
  input_schema: INPUT_SCHEMA,
  arguments: ARGUMENTS,
  metadata: ACTION.metadata,
  allowed_action_types: ["payment.*"],
  denied_action_types: ["db.drop"],
  capabilities: ["payment.send"],
  action_types: ["payment.*"],
  match_action_types: ["payment.*"],
  steps: ["secret.read", "http.*"],
  url: "https://ops.example.com/events",
  server: "files",
  trust_score: 50,
  trust_level: 50,
  policy_name: MANDATE.name,
  reason: "key found in a public repository",
  note: "tests are green",
  purpose: "month end",
  goal: "pay the invoices",
  audience: "https://partner.example.com",
  cursor: "42",
  warnings: [],
  violations: [],
  digest: DIGEST,
  policy_digest: DIGEST,
  description: "pays invoices",
  agent_name: "payments-agent",
  tool_name: "read",
  mandate_name: MANDATE.name,
  argument: "amount",
  rule: "rules[0].conditions.rules[0]",
  path: "rules[0].tool",
  field: "amount",
  text: "write to Zebulon Quist",
  time_zone: "Europe/Berlin",
  from: "08:00",
  to: "18:00",
  events: ["escalation.created"],
  kinds: ["email"],
  public_key: "-----BEGIN PUBLIC KEY-----\n…\n-----END PUBLIC KEY-----\n",
  page_token: "",
  token: "eyJhbGciOiJFUzI1NiJ9…",
  secret: "acp_3vF9…",
  seconds: 3600,
  window_seconds: 3600,
  max_count: 2,
  limit: 2,
  window: 3600,
  count: 1,
  latency_ms: 2,
  value: 500,
  index: 42,
  seq: 42,
  ttl_seconds: 3600,
  duration_seconds: 3600,
  code: "CONDITION_HELD",
  message: "`amount > 500 EUR` holds",
  would_pass: "would allow at amount <= 500 EUR",
  next_page_token: null,
  max_trust_level: 80,
  priority: 0,
  version: 1,
  tool_version: 1,
  remaining: 1,
  members: 2,
};

/** Examples of requests, and of messages inside them, as a person would write them. */
const MESSAGES: Readonly<Record<string, JsonObject>> = {
  InterceptRequest: { agent_id: `agt_${ID}`, action_content: "pay 900 EUR to ACME", ...ACTION },
  RegisterAgentRequest: {
    name: "payments-agent",
    framework: "langchain",
    description: "pays invoices",
    capabilities: ["payment.send"],
    permissions: { allowed_action_types: ["payment.*"], denied_action_types: ["payment.refund"] },
  },
  RegisterToolRequest: { name: "send_payment", description: "sends money", input_schema: INPUT_SCHEMA },
  PasteToolRequest: { name: "send_payment", input_schema: INPUT_SCHEMA },
  CreateMandateRequest: MANDATE,
  UpdateMandateRequest: { ...MANDATE, mandate_id: `mnd_${ID}` },
  CompileMandateRequest: { rules: [RULE] },
  RetireSigningKeyRequest: { key_id: "n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg" },
  InterceptResponse: {
    decision: "escalate",
    trust_score: 50,
    decision_id: `dec_${ID}`,
    escalation_id: `esc_${ID}`,
    policy_name: MANDATE.name,
    latency_ms: 2,
    decision_path: "policy",
    reasons: [REASON],
  },
  Reason: REASON,
  Mandate: {
    mandate_id: `mnd_${ID}`,
    ...MANDATE,
    scope: "workspace",
    mode: "enforce",
    version: 1,
    digest: DIGEST,
    status: "active",
    created_at: AT,
    updated_at: AT,
  },
  MandateDefinition: MANDATE,
  ApplyPackRequest: { name: "payments", mandates: [MANDATE] },
  Rule: RULE,
  PreflightRequest: { agent_id: `agt_${ID}`, steps: [ACTION] },
  ProbeRequest: { agent_id: `agt_${ID}`, ...ACTION },
  BacktestRequest: { drafts: [MANDATE], since: AT },
  UpdateWorkspaceRequest: { workspace_id: "default", default_decision: "escalate", four_eyes: true },
  AskRequest: { may: { agent: "payments-agent", tool: "send_payment", arguments: ARGUMENTS } },
  CreateApiKeyRequest: { name: "payments", role: "agent", agent_id: `agt_${ID}` },
  CreateMcpServerRequest: { name: "files", url: "https://mcp.example.com/mcp", mode: "quarantine" },
};

const idOf = (name: string): string | undefined => {
  const prefix = name.endsWith("_id") ? PREFIXES[name.slice(0, -3)] : undefined;
  return prefix === undefined ? undefined : `${prefix}_${ID}`;
};

/** Returns an example of a request, as a person would write it if possible, else with the required fields. */
export function requestExample(desc: DescMessage, required: readonly DescField[]): JsonObject {
  return (
    MESSAGES[desc.name] ??
    Object.fromEntries(required.map((field) => [field.name, fieldExample(field, "request", [desc])]))
  );
}

/** Returns an example of a response, with every field. */
export const responseExample = (desc: DescMessage): JsonObject => messageExample(desc, "response", []) as JsonObject;

/** Returns an example of a field's value. */
export function fieldExample(field: DescField, direction: Direction, inside: readonly DescMessage[] = []): JsonValue {
  const known = idOf(field.name) ?? VALUES[field.name];
  const fits = known !== undefined && isOfKind(field, known);
  const value = fits ? known : valueExample(field, direction, inside);
  if (field.fieldKind !== "list" || Array.isArray(value)) return value;
  return value === null ? [] : [value];
}

function isOfKind(field: DescField, value: JsonValue): boolean {
  if (value === null) return canBeNull(field);
  if (Array.isArray(value) && value.length === 0) return field.fieldKind === "list";
  if (field.message !== undefined) return !Array.isArray(value) && field.message.typeName.endsWith(".Struct");
  if (field.fieldKind === "list" || Array.isArray(value)) return field.fieldKind === "list" && Array.isArray(value);
  if (field.scalar === ScalarType.STRING) return typeof value === "string";
  const isNumber = [ScalarType.INT32, ScalarType.INT64, ScalarType.DOUBLE].includes(field.scalar as ScalarType);
  return isNumber && typeof value === "number";
}

function valueExample(field: DescField, direction: Direction, inside: readonly DescMessage[]): JsonValue {
  if (field.message !== undefined) return messageExample(field.message, direction, inside);
  if (field.enum !== undefined) return enumWordsFromDesc(field.enum).words[0] ?? null;
  const { minimum, items } = keywordsFromRules(field) as { minimum?: number; items?: { enum?: string[] } };
  if (field.scalar === ScalarType.BOOL) return false;
  if (field.scalar === ScalarType.BYTES) return "aGFzaA==";
  if (field.scalar === ScalarType.STRING) return items?.enum?.[0] ?? textExample(field);
  return Math.max(minimum ?? 1, 1);
}

function textExample(field: DescField): string {
  const { enum: words, format } = keywordsFromRules(field) as { enum?: readonly string[]; format?: string };
  if (format === "uuid") return String(VALUES.request_id);
  return words?.[0] ?? field.name.replaceAll("_", " ");
}

function messageExample(desc: DescMessage, direction: Direction, inside: readonly DescMessage[]): JsonValue {
  switch (desc.typeName) {
    case "google.protobuf.Timestamp":
      return AT;
    case "google.protobuf.Struct":
      return {};
    case "google.protobuf.Value":
      return 500;
    case "google.protobuf.ListValue":
      return [];
  }
  if (inside.includes(desc)) return null;
  const known = MESSAGES[desc.name];
  if (known !== undefined && direction === "request") return known;
  const fields = desc.fields.filter(({ oneof }) => oneof === undefined || direction === "response");
  return Object.fromEntries(
    fields.map((field) => {
      // One member of a oneof is set.
      const isUnset = field.oneof !== undefined && field.oneof.fields[0] !== field;
      return [field.name, isUnset ? null : memberExample(field, known, direction, [...inside, desc])];
    }),
  );
}

function memberExample(
  field: DescField,
  known: JsonObject | undefined,
  direction: Direction,
  inside: readonly DescMessage[],
): JsonValue {
  if (known === undefined) return fieldExample(field, direction, inside);
  return completed(field, known[field.name]);
}

/** Adds to a value the fields of a response that a person does not write. */
function completed(field: DescField, value: JsonValue | undefined): JsonValue {
  if (value === undefined) return field.fieldKind === "list" ? [] : absentExample(field);
  if (field.message === undefined || field.message.typeName.startsWith("google.")) return value;
  const { fields } = field.message;
  const complete = (one: JsonValue): JsonValue =>
    Object.fromEntries(fields.map((each) => [each.name, completed(each, (one as JsonObject)[each.name])]));
  return Array.isArray(value) ? value.map(complete) : complete(value);
}

function absentExample(field: DescField): JsonValue {
  if (canBeNull(field)) return null;
  if (field.scalar === ScalarType.BOOL) return false;
  return field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES ? "" : 0;
}
