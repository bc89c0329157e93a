import type { JsonObject } from "@bufbuild/protobuf";
import { isJsonObject } from "../policy/json-value.ts";
import { METHOD_TOOLS } from "../registry/mcp-method-tools.ts";
import { retryAfterMs, retryText } from "../retry/retry-after.ts";
import type { DecisionReason, SealedDecision } from "../state/types.ts";
import type { KeptAnswer } from "./kept-results.ts";
import { createError, RPC_CODES, type RpcId, type RpcResponse } from "./messages.ts";

/** Member of `_meta` with the decision on a call. */
export const DECISION_META = "agentcontrol.v1/decision";
/** Maximum reasons in a result. */
const MAX_REASONS = 20;

const timeJson = (atMs: number | undefined): string | null =>
  atMs === undefined ? null : new Date(atMs).toISOString();

/** Returns when limits no longer refuse a call that they alone refused, epoch milliseconds. */
const retryOf = ({ decision, reasons }: SealedDecision): number | undefined =>
  decision === "allow" ? undefined : retryAfterMs(reasons);

/** Returns the decision in the form of `_meta`. */
export function decisionMeta(sealed: SealedDecision): JsonObject {
  return {
    decision: sealed.decision,
    decision_id: sealed.decisionId,
    decision_path: sealed.path,
    policy_name: sealed.policyName ?? null,
    escalation_id: sealed.escalationId ?? null,
    trust_score: sealed.trustTenths / 10,
    retry_after: timeJson(retryOf(sealed)),
    reasons: sealed.reasons.slice(0, MAX_REASONS).map(reasonJson),
  };
}

function reasonJson(reason: DecisionReason): JsonObject {
  const { code, message, mandateId, mandateName, rule, argument, valueKind, wouldPass } = reason;
  const { remaining, over, resetsAtMs, decision } = reason;
  return {
    code,
    message,
    mandate_id: mandateId ?? null,
    mandate_name: mandateName ?? null,
    rule: rule ?? null,
    argument: argument ?? null,
    value_kind: valueKind ?? null,
    would_pass: wouldPass ?? null,
    remaining: remaining ?? null,
    over: over ?? null,
    resets_at: timeJson(resetsAtMs),
    decision: decision ?? null,
  };
}

/** Creates a tool result that tells the model, in text, why its call was not made. */
export function refusal(text: string, meta: JsonObject): JsonObject {
  return { content: [{ type: "text", text }], isError: true, _meta: { [DECISION_META]: meta } };
}

const reasonText = ({ message, wouldPass }: DecisionReason): string =>
  wouldPass === undefined ? `- ${message}` : `- ${message} (${wouldPass})`;

const reasonLines = ({ reasons }: SealedDecision): string[] => reasons.slice(0, MAX_REASONS).map(reasonText);

/** Address of the page on which a person decides; undefined if the service does not know its own address. */
export function escalationPage(
  publicUrl: string | undefined,
  { escalationId }: Pick<SealedDecision, "escalationId">,
): string | undefined {
  return publicUrl === undefined ? undefined : `${publicUrl}/escalations/${escalationId}`;
}

/** Tells whether the call of a tool, or the request of a method, has reached its server: no. */
const notRun = (tool: string): string =>
  METHOD_TOOLS.some(({ method }) => method === tool) ? "The server did not get it." : "The tool did not run.";

/** Text for a model about a blocked call, with the reasons; where limits alone refused it, with when it may be tried again. */
export function blockedText(tool: string, sealed: SealedDecision, nowMs = Date.now()): string {
  const retryAtMs = retryOf(sealed);
  const then = retryAtMs === undefined ? [] : [retryText(retryAtMs, nowMs)];
  const what = `The control plane blocked this call of \`${tool}\`. ${notRun(tool)}`;
  return [what, ...reasonLines(sealed), ...then].join("\n");
}

/** Text for a person about a call while it waits, with the page on which they decide. */
export function waitingText(tool: string, publicUrl: string | undefined, escalationId: string): string {
  const page = escalationPage(publicUrl, { escalationId });
  const where = page === undefined ? "" : ` at ${page}`;
  return `waiting for a person to approve \`${tool}\` (escalation ${escalationId})${where}`;
}

/** Maximum characters of arguments in a text. */
const MAX_ARGUMENTS = 10_000;

function argumentsText(args: JsonObject): string {
  const text = JSON.stringify(args);
  return text.length <= MAX_ARGUMENTS ? text : "that the escalation shows";
}

/**
 * Text for a model about a call that waits for a person, and how to continue. `edited`: the arguments that a person gave it and
 * another has to approve.
 */
export function pendingText(
  tool: string,
  sealed: SealedDecision,
  page: string | undefined,
  edited: JsonObject | undefined,
): string {
  const where = page === undefined ? "" : ` They decide at ${page}.`;
  const [who, which] =
    edited === undefined
      ? ["a person to approve it", "the same arguments"]
      : ["another person to approve it as a first one changed it", `the arguments ${argumentsText(edited)}`];
  const text =
    `This call of \`${tool}\` waits for ${who} (escalation ${sealed.escalationId}). ${notRun(tool)}${where} ` +
    `Call it again with ${which} to continue waiting; once approved, it runs once.`;
  return [text, ...reasonLines(sealed)].join("\n");
}

/** Text for a model about a call that was rejected, expired or withdrawn, with the person's note. */
export function rejectedText(
  tool: string,
  { note, resolvedBy }: { readonly note: string | null; readonly resolvedBy: string | null },
): string {
  const what =
    resolvedBy === "expiry"
      ? `Nobody approved this call of \`${tool}\` in time.`
      : resolvedBy === "withdrawal"
        ? `The request to approve this call of \`${tool}\` was withdrawn.`
        : `A person rejected this call of \`${tool}\`.`;
  const said = note === null || note === "" ? "" : ` They said: "${note}".`;
  return `${what}${said} ${notRun(tool)}`;
}

/** Creates the result of a blocked call. */
export function blockedResult(tool: string, sealed: SealedDecision): JsonObject {
  return refusal(blockedText(tool, sealed), decisionMeta(sealed));
}

/** Creates the result of a call whose tool is not in force, or that was blocked before this mattered. */
export function refusedResult(tool: string, sealed: SealedDecision, why: string): JsonObject {
  if (sealed.path !== "mcp_definition") return blockedResult(tool, sealed);
  const text = `The control plane refused this call of \`${tool}\`: ${why}. The tool did not run.`;
  return refusal(text, decisionMeta(sealed));
}

/** Creates the error that answers a request, whose result cannot say that it failed, from the result of a refused call. */
export function errorFromRefusal(id: RpcId, { content, _meta }: JsonObject): RpcResponse {
  const [{ text }] = content as unknown as [{ text: string }];
  return createError(id, RPC_CODES.server, text, _meta as JsonObject);
}

/** Creates the result of a call that still waits for a person. */
export function pendingResult(
  tool: string,
  sealed: SealedDecision,
  page: string | undefined,
  edited: JsonObject | undefined,
): JsonObject {
  const meta = { ...decisionMeta(sealed), ...(page === undefined ? {} : { escalation_page: page }) };
  return refusal(pendingText(tool, sealed, page, edited), meta);
}

/** Text for a person about an approved call that still runs for a client that has left. */
export const runningText = (tool: string, decisionId: string): string =>
  `an identical call of \`${tool}\` was approved and runs (decision ${decisionId})`;

/** Creates the result of a call that repeats an approved one which still runs. */
export function runningResult(tool: string, decisionId: string): JsonObject {
  const text =
    `An identical call of \`${tool}\` was approved and still runs (decision ${decisionId}). It does not run twice. ` +
    "Call it again with the same arguments to get its result.";
  return refusal(text, { decision: "allow", decision_id: decisionId, call_status: "running" });
}

/** Creates the result of a call that repeats an approved one whose result is lost. */
export function lostResult(tool: string, decisionId: string, status: "kept" | "too_large" | "unknown"): JsonObject {
  const what =
    status === "too_large"
      ? "ran, and its client did not wait for the result, which was too large to keep"
      : "was sent to its server, and nobody got its result: it may have run";
  const text =
    `An earlier identical call of \`${tool}\` was approved (decision ${decisionId}). It ${what}. This call did not run. ` +
    "Check what the earlier one did before you call it again: that needs a new approval.";
  return refusal(text, { decision: "allow", decision_id: decisionId, call_status: status });
}

/** Marks the server's answer to an earlier identical call with the decision that allowed that call. */
export function keptAnswer({ result, error }: KeptAnswer, decisionId: string): KeptAnswer {
  if (result === undefined) return { ...(error === undefined ? {} : { error }) };
  const meta = isJsonObject(result._meta) ? result._meta : {};
  const decision = { decision: "allow", decision_id: decisionId, call_status: "kept" };
  return { result: { ...result, _meta: { ...meta, [DECISION_META]: decision } } };
}

/** Creates the result of a call whose approval was used or has expired before the client asked for the call. */
export function spentResult(
  tool: string,
  escalation: { readonly escalationId: string; readonly usedBy: string | null },
): JsonObject {
  const { escalationId, usedBy } = escalation;
  const why =
    usedBy === null
      ? "has expired, and the tool did not run."
      : `was used by decision ${usedBy}: by an identical call, or by this call before its result was lost. Check whether the tool ran before you call it again.`;
  const reasons = [{ code: "APPROVAL_SPENT", message: `the approval ${why}` }];
  const meta = { decision: "escalate", escalation_id: escalationId, used_by: usedBy, reasons };
  return refusal(`The approval of this call of \`${tool}\` (escalation ${escalationId}) ${why}`, meta);
}

/** Creates the result of a call that a person rejected, or whose escalation expired or was withdrawn. */
export function rejectedResult(
  tool: string,
  decision: JsonObject,
  { note, resolvedBy }: { readonly note: string | null; readonly resolvedBy: string | null },
): JsonObject {
  // The person's answer holds also once a limit has room again.
  const meta = { ...decision, retry_after: null, escalation_status: "rejected", note, resolved_by: resolvedBy };
  return refusal(rejectedText(tool, { note, resolvedBy }), meta);
}
