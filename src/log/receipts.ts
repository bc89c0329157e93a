import type { Pool } from "pg";
import type { Decision } from "../policy/types.ts";
import type { DecisionPath, DecisionReason, SealedDecision } from "../state/types.ts";
import type { PackedRow } from "../store/sql/packed-bodies.ts";
import { readEntriesById } from "../store/sql/read-entries.ts";
import { stored } from "../store/store-fault.ts";
import { bodiesFrom } from "./body-packs.ts";

/** One reason as sealed. */
export interface SealedReason {
  readonly code: string;
  readonly message: string;
  readonly mandate_id?: string;
  readonly mandate_name?: string;
  readonly rule?: string;
  readonly argument?: string;
  readonly would_pass?: string;
}

/** A counter as sealed. */
export interface SealedLimit {
  readonly scope: string;
  readonly group: string;
  readonly members: number;
  readonly count: number;
  readonly limit: number;
  readonly window: number;
  readonly remaining: number;
  readonly source: string;
  readonly mandate_id: string;
  readonly rule: string;
}

/** What came of a semantic rule, as sealed: with `unavailable` there is no verdict. */
export interface SealedGuard {
  readonly mandate_id: string;
  readonly version: number;
  readonly rule: string;
  readonly model?: string;
  readonly violates?: boolean;
  readonly confidence?: number;
  readonly reason?: string;
  readonly unavailable?: string;
  readonly latency_ms: number;
}

/** A decision's entry as sealed: the parsed form of its body. */
export interface DecisionBody {
  readonly type: "decision";
  readonly workspace_id: string;
  readonly seq: number;
  readonly at: string;
  readonly decision_id: string;
  readonly decision: Decision;
  readonly decision_path: DecisionPath;
  readonly key_id: string;
  readonly action: {
    readonly agent_id: string;
    readonly agent_name: string;
    readonly action_type: string;
    readonly action_content: string;
    readonly metadata?: Record<string, never>;
    readonly tool?: string;
    readonly tool_version?: number;
    readonly tool_digest?: string;
  };
  readonly action_digest?: string;
  readonly authorisation: { readonly permissions: string; readonly collective_limits: readonly SealedLimit[] };
  /** Grants from the actor's own up to the principal's, then window, contract and token; absent for none. */
  readonly authority?: readonly string[];
  readonly mandates: readonly {
    readonly mandate_id: string;
    readonly version: number;
    readonly digest: string;
    readonly decision?: Decision;
  }[];
  readonly observed: readonly {
    readonly mandate_id: string;
    readonly version: number;
    readonly would_decide: Decision;
    readonly reasons: readonly SealedReason[];
  }[];
  readonly reasons: readonly SealedReason[];
  /** Absent when no semantic rule covers the action. */
  readonly guards?: readonly SealedGuard[];
  readonly trust: { readonly before: number; readonly after: number };
  readonly escalation_id?: string;
  readonly used_escalation_id?: string;
  readonly on_behalf_of?: string;
  readonly session_id?: string;
  readonly grant_id?: string;
  readonly intent_contract_id?: string;
  readonly policy_name?: string;
  readonly presented_escalation_id?: string;
  readonly previous_root: string;
  readonly previous_size: number;
}

/** A decision with the exact text that was hashed. */
export interface DecisionReceipt {
  readonly body: DecisionBody;
  readonly canonicalBody: string;
  readonly leafHash: Uint8Array;
}

/** A receipt from a stored entry. Throws when its body is lost. */
export function receiptFrom(canonicalBody: string, leafHash: Uint8Array): DecisionReceipt {
  if (canonicalBody === "")
    throw new Error("the body of a decision is missing from the log, or its pack cannot be read");
  return { body: JSON.parse(canonicalBody) as DecisionBody, canonicalBody, leafHash };
}

function reasonFrom(reason: SealedReason): DecisionReason {
  return {
    code: reason.code,
    message: reason.message,
    ...(reason.mandate_id === undefined ? {} : { mandateId: reason.mandate_id }),
    ...(reason.mandate_name === undefined ? {} : { mandateName: reason.mandate_name }),
    ...(reason.rule === undefined ? {} : { rule: reason.rule }),
    ...(reason.argument === undefined ? {} : { argument: reason.argument }),
    ...(reason.would_pass === undefined ? {} : { wouldPass: reason.would_pass }),
  };
}

/** A decision that was sealed before, read back from its receipt. */
export function sealedDecisionFromReceipt({ body }: DecisionReceipt): SealedDecision {
  return {
    decisionId: body.decision_id,
    seq: body.seq,
    atMs: Date.parse(body.at),
    agentId: body.action.agent_id,
    actionType: body.action.action_type,
    decision: body.decision,
    path: body.decision_path,
    trustBeforeTenths: Math.round(body.trust.before * 10),
    trustAfterTenths: Math.round(body.trust.after * 10),
    escalationId: body.escalation_id,
    policyName: body.policy_name,
    reasons: body.reasons.map(reasonFrom),
  };
}

/** Reads the receipts of some decisions, by id; ids without a decision are left out. */
export async function readReceipts(
  pool: Pool,
  workspaceId: string,
  decisionIds: readonly string[],
): Promise<Map<string, DecisionReceipt>> {
  type Row = PackedRow & { entryId: string; kind: number; leafHash: Buffer };
  const { rows } = await stored(pool.query<Row>({ ...readEntriesById, values: [workspaceId, decisionIds] }));
  const decisions = rows.filter(({ kind }) => kind === 0);
  const bodies = await bodiesFrom(decisions);
  return new Map(
    decisions.map(({ entryId, leafHash }, index) => [entryId, receiptFrom(bodies[index] ?? "", leafHash)]),
  );
}
