import { deepStrictEqual } from "node:assert";
import type { JsonObject } from "@bufbuild/protobuf";
import { canonicalJson, type JsonValue } from "../../src/tree/canonical.ts";
import { type Call, told } from "./linearisable-calls.ts";
import { editMark, type LogEntry, type ReadLog, readWithModel, refusalMark } from "./linearisable-log.ts";
import { faultsInOrder } from "./linearisable-order.ts";
import type { Replayed } from "./naive-log.ts";
import { assertIntact, type StoredLog } from "./stored-log.ts";

/** A history as its callers and its database have it. */
export interface RecordedHistory {
  readonly calls: readonly Call[];
  readonly log: StoredLog;
}

/** Result of checking a history. */
export interface HistoryReport {
  /** Descriptions of faults, the first of each kind; empty for a linearisable history. */
  readonly faults: readonly string[];
  readonly figures: Readonly<Record<string, number>>;
}

/** Refusals that a caller of a busy workspace has to expect: what it asks for was ended or changed by another. */
const EXPECTED_REFUSALS: readonly string[] = [
  "AGENT_INACTIVE",
  "ALREADY_CLAIMED",
  "CLAIM_REFUSED",
  "EDIT_BLOCKED",
  "ESCALATION_RESOLVED",
  "GRANT_TOO_WIDE",
  "INVALID_FIELD",
  "OUTCOME_EXISTS",
  "PARENT_GRANT_INACTIVE",
];

/** The part of an entry that the answer to its call shows, as answered and as sealed. */
const SHOWN: Partial<Record<Call["kind"], (body: JsonObject, entry: LogEntry) => [unknown, unknown]>> = {
  intercept: (body, entry) => [shownDecision(body), sealedDecision(entry)],
  register: ({ agent }, entry) => [idOf(agent, "agent_id"), idOf(entry.agent, "agent_id")],
  found: ({ department }, entry) => [idOf(department, "department_id"), idOf(entry.department, "department_id")],
  publish: ({ mandate }, entry) => [
    [idOf(mandate, "mandate_id"), idOf(mandate, "version"), idOf(mandate, "digest")],
    [idOf(entry.mandate, "mandate_id"), idOf(entry.mandate, "version"), idOf(entry.mandate, "digest")],
  ],
  edit: ({ escalation, replacement }, entry) => [
    [
      idOf(escalation, "escalation_id"),
      idOf(escalation, "replaced_by"),
      idOf(escalation, "status"),
      idOf(replacement, "escalation_id"),
      idOf(replacement, "edited_from"),
      idOf(replacement, "action_digest"),
    ],
    shownEdit(entry),
  ],
  lend: ({ grant }, entry) => [idOf(grant, "grant_id"), idOf(entry.authority, "id")],
  claim: ({ claimed, claim }, entry) => [
    [claimed, idOf(claim, "claim_id"), idOf(claim, "seq")],
    [true, entry.claim_id, entry.seq],
  ],
  report: ({ outcome }, entry) => [
    [idOf(outcome, "status"), idOf(outcome, "amount"), idOf(outcome, "result_digest"), idOf(outcome, "seq")],
    [entry.status, orNull(entry.amount), entry.result_digest, entry.seq],
  ],
  revoke: (body, entry) => [
    [body.revocation_id, body.ledger_seq],
    [entry.revocation_id, entry.seq],
  ],
};

function shownEdit({ escalation_id, edit }: LogEntry): unknown {
  const { replaced_by, edited_digest } = edit as JsonObject;
  const approved =
    replaced_by === undefined ? [undefined, undefined, undefined] : [replaced_by, escalation_id, edited_digest];
  return [escalation_id, replaced_by ?? null, "rejected", ...approved];
}

const idOf = (resource: unknown, name: string): unknown => (resource as JsonObject | undefined)?.[name];
const orNull = (value: unknown): unknown => value ?? null;

function shownDecision(body: JsonObject): unknown {
  const reasons = (body.reasons as JsonObject[]).map(({ code, message, mandate_id }) => [
    code,
    message,
    orNull(mandate_id),
  ]);
  const { decision_id, decision, decision_path, trust_score, escalation_id, policy_name } = body;
  const claimed = orNull(body.claimed);
  return { decision_id, decision, decision_path, trust_score, escalation_id, policy_name, claimed, reasons };
}

function sealedDecision(entry: LogEntry): unknown {
  const { decision_id, decision, decision_path = "default", escalation_id, policy_name } = entry;
  const ofDefault = { code: "DEFAULT", message: `no mandate matched; the workspace ${decision}s by default` };
  const reasons = ((entry.reasons ?? [ofDefault]) as JsonObject[]).map(({ code, message, mandate_id }) => [
    code,
    message,
    orNull(mandate_id),
  ]);
  const trust_score = (entry.trust as JsonObject).before;
  // Only the claim that came with the request is sealed with it, and every repeat of the request has the same.
  const claimed = entry.claim_id === undefined ? null : true;
  const optional = { escalation_id: orNull(escalation_id), policy_name: orNull(policy_name), claimed };
  return { decision_id, decision, decision_path, trust_score, ...optional, reasons };
}

/** The action to decide, as requested and as sealed. */
function actionOf(call: Call, entry: LogEntry): [string, string] {
  const {
    action,
    on_behalf_of = null,
    grant_id = null,
    presented_escalation_id = null,
  } = entry as LogEntry & Record<string, JsonValue>;
  const { agent_id, action_type, action_content, metadata = null, tool = null } = action as Record<string, JsonValue>;
  const claim_id = entry.decision === "allow" ? (call.request.claim_id ?? null) : null;
  const under = { on_behalf_of, grant_id, escalation_id: presented_escalation_id };
  const sealed = { agent_id, action_type, action_content, metadata, tool, ...under, claim_id: entry.claim_id ?? null };
  const { request_id: _, ...asked } = call.request;
  const wanted = {
    metadata: null,
    tool: null,
    on_behalf_of: null,
    grant_id: null,
    escalation_id: null,
    ...asked,
    claim_id,
  };
  return [canonicalJson(wanted as JsonValue), canonicalJson(sealed as JsonValue)];
}

function difference(what: string, want: unknown, got: unknown): string | undefined {
  try {
    deepStrictEqual(got, want);
    return undefined;
  } catch {
    return `${what}\n  want ${JSON.stringify(want)}\n  got  ${JSON.stringify(got)}`;
  }
}

/** Finds a fault in the entries of one call; undefined when the log has it exactly as it was answered. */
function faultOf(call: Call, { byMark }: ReadLog): string | undefined {
  const { kind, mark, outcome, wasKilled } = call;
  if (outcome.kind === "unanswered" && !wasKilled) return `no answer though its process lived: ${told(call)}`;
  if (outcome.kind === "refused" && !EXPECTED_REFUSALS.includes(outcome.reason)) return `refused: ${told(call)}`;
  if (mark === undefined) return undefined;
  const [first, second] = byMark.get(mark) ?? [];
  const [refusal] = byMark.get(refusalMark(mark)) ?? [];
  const isRefused =
    refusal !== undefined && outcome.kind === "answered" && refusal.decision_id === outcome.body.decision_id;
  const entry = isRefused ? refusal : first;
  if (second !== undefined) return `entries ${entry?.seq} and ${second.seq} are both of ${told(call)}`;
  if (outcome.kind === "refused") return entry && `entry ${entry.seq} is of a call that was refused: ${told(call)}`;
  if (kind === "intercept" && entry !== undefined) {
    const [asked, sealed] = actionOf(call, entry);
    if (asked !== sealed) return difference(`entry ${entry.seq} has another action`, asked, sealed);
  }
  if (outcome.kind === "unanswered") return undefined;
  // An agent that was revoked before has its first certificate; the order of calls shows that it is revoked.
  if (entry === undefined) return kind === "revoke" ? undefined : `not in the log: ${told(call)}`;
  const [shown, was] = SHOWN[kind]?.(outcome.body, entry) ?? [undefined, undefined];
  return difference(`entry ${entry.seq} differs from what was answered to a ${kind}`, was, shown);
}

const KNOWN_SOURCES = ["decision_log", "mirror"];

/** Finds the entries on which model and log differ, leaving out the source of counters, which the model does not know. */
function faultInReplay({ want, got }: Replayed): string | undefined {
  const limits = got.limits as { readonly source: string }[];
  const unknown = limits.find(({ source }) => !KNOWN_SOURCES.includes(source));
  if (unknown !== undefined) return `entry ${got.seq} names the source ${unknown.source}`;
  const plain = { ...got, limits: limits.map((limit) => ({ ...limit, source: "decision_log" })) };
  return difference(`entry ${got.seq} differs from the model`, want, plain);
}

function faultsOf<T>(items: readonly T[], faultIn: (item: T) => string | undefined): string[] {
  return items.map(faultIn).filter((fault) => fault !== undefined);
}

function intactFaults(log: StoredLog): string[] {
  try {
    assertIntact(log);
    return [];
  } catch (error) {
    return [`the log is not intact: ${(error as Error).message}`];
  }
}

/** Tests whether an entry must have a call: every decision, claim and report, but no outcome that became unknown. */
const isOfCall = ({ type, status }: LogEntry): boolean =>
  type === "decision" || type === "claim" || (type === "outcome" && status !== "unknown");

/** Finds entries without a call. */
function strayFaults(calls: readonly Call[], { byMark }: ReadLog): string[] {
  const marksOf = ({ kind, mark, request }: Call): readonly string[] => {
    if (mark === undefined) return [];
    return kind === "edit" ? [mark, editMark(request.escalation_id)] : [mark, refusalMark(mark)];
  };
  const asked = new Set(calls.flatMap(marksOf));
  const stray = [...byMark].flatMap(([mark, entries]) => (asked.has(mark) ? [] : entries));
  return stray.filter(isOfCall).map(({ seq }) => `entry ${seq} was asked for by nobody`);
}

function figuresOf(calls: readonly Call[], read: ReadLog, compared: number): HistoryReport["figures"] {
  const count = (...kinds: readonly Call["kind"][]): number =>
    calls.filter(({ kind, outcome }) => kinds.includes(kind) && outcome.kind === "answered").length;
  const entries = (fits: (entry: LogEntry) => boolean): number => read.entries.filter(fits).length;
  const sources = read.replayed.flatMap(({ got }) => (got.limits as { source: string }[]).map(({ source }) => source));
  // A rule that counts for actor and principal has two counters.
  const rulesIn = ({ limits }: Replayed["got"]): number =>
    new Set((limits as { mandate_id: string; rule: string }[]).map(({ mandate_id, rule }) => `${mandate_id} ${rule}`))
      .size;
  const path = (name: string): number => read.replayed.filter(({ got }) => got.path === name).length;
  return {
    calls: calls.length,
    entries: read.entries.length,
    decisions: read.replayed.length,
    unanswered: calls.filter(({ outcome }) => outcome.kind === "unanswered").length,
    moves: count("join", "leave"),
    mandates: count("publish", "archive"),
    revokes: count("revoke"),
    grants: count("lend"),
    edits: count("edit"),
    extensions: count("extend"),
    reads: count("get_agent", "list_decisions", "get_status", "get_outcome"),
    claims: entries(({ type }) => type === "claim"),
    outcomes: entries(({ type }) => type === "outcome"),
    "unknown outcomes": entries(({ status }) => status === "unknown"),
    "exceeded budgets": read.replayed.filter(({ got }) => got.codes.includes("BUDGET_EXCEEDED")).length,
    lent: read.replayed.filter(({ got }) => got.authority.length > 0).length,
    approved: path("approved"),
    observed: read.replayed.filter(({ got }) => got.observed.length > 0).length,
    sequences: read.replayed.filter(({ got }) => got.codes.includes("SEQUENCE_COMPLETED")).length,
    "answers compared": calls.filter(({ outcome }) => outcome.kind === "answered").length,
    "operations ordered": compared,
    counters: sources.length,
    "limits of principals": read.replayed.filter(({ got }) => rulesIn(got) < got.limits.length).length,
    "counters from the mirror": sources.filter((source) => source === "mirror").length,
  };
}

/**
 * Checks a history: the log is intact and holds every answered call once, as it was answered, and every other one at most
 * once; it is the order in which everything took effect; and a naive model, on one thread, makes of it what was sealed.
 */
export function checkHistory({ calls, log }: RecordedHistory): HistoryReport {
  const read = readWithModel(log);
  const order = faultsInOrder(calls, read);
  const kinds = [
    intactFaults(log),
    faultsOf(calls, (call) => faultOf(call, read)),
    strayFaults(calls, read),
    order.faults,
    read.fault === undefined ? [] : [read.fault],
    faultsOf(read.replayed, faultInReplay),
  ];
  const firsts = kinds
    .filter(({ length }) => length > 0)
    .map(([first, ...more]) => `${first} (and ${more.length} more)`);
  return { faults: firsts, figures: figuresOf(calls, read, order.operations) };
}
