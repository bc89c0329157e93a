import type { DecisionBody, SealedReason } from "../../log/receipts.ts";
import type { ProvenanceSpec } from "../../policy/provenance/check.ts";
import type { FindingCode } from "../../policy/reason-codes.ts";
import type { CompiledMandate, CompiledRule, Finding } from "../../policy/types.ts";
import type { Policies } from "../../state/policies.ts";
import type { Recorded } from "./replay.ts";

/** Verdicts of provenance rules on one recorded decision. */
export interface RecordedProvenance {
  /** Returns the findings of a rule; none for a rule that did not fire, and for one of which the log has no verdict. */
  readonly findingsOf: (spec: ProvenanceSpec) => readonly Finding[];
  /** Tests whether a rule was asked about of which the log has no verdict. */
  readonly isMissing: () => boolean;
}

/** A provenance rule in force, with its mandate and the time since when this version is in force. */
interface RuleInForce {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly sinceMs: number;
}

/** The provenance rules in force. */
export type ProvenanceRules = ReadonlyMap<ProvenanceSpec, RuleInForce>;

/** Lists the provenance rules of some policies. */
export function provenanceRules({ mandates }: Policies): ProvenanceRules {
  const found = new Map<ProvenanceSpec, RuleInForce>();
  for (const { compiled: mandate, updatedAtMs: sinceMs } of mandates.values()) {
    for (const rule of mandate.rules) {
      if (rule.provenance !== undefined) found.set(rule.provenance, { mandate, rule, sinceMs });
    }
  }
  return found;
}

/**
 * Reads the verdicts of provenance rules from a decision: the log keeps them, and not what sessions observed. A rule has one if its
 * mandate's version was in force then.
 */
export function recordedProvenance(rules: ProvenanceRules, { entry, body }: Recorded): RecordedProvenance {
  let isMissing = false;
  const findingsOf = (spec: ProvenanceSpec): readonly Finding[] => {
    // Without a session no provenance rule fires.
    if (body.session_id === undefined) return [];
    const found = rules.get(spec);
    if (found !== undefined && found.sinceMs < entry.atMs) return findingsIn(body, found.mandate, found.rule);
    isMissing = true;
    return [];
  };
  return { findingsOf, isMissing: () => isMissing };
}

function findingsIn(body: DecisionBody, { id, version }: CompiledMandate, rule: CompiledRule): readonly Finding[] {
  const isOne = (each: { readonly mandate_id: string; readonly version: number }): boolean =>
    each.mandate_id === id && each.version === version;
  const observed = body.observed.find(isOne);
  const isFired = body.mandates.some(isOne);
  if (!isFired && observed === undefined) return [];
  const told = (observed?.reasons ?? body.reasons).filter((reason) => reason.mandate_id === id);
  const own = told.filter((reason) => reason.rule === rule.path || reason.rule?.startsWith(`${rule.path}.`) === true);
  if (own.length > 0) return own.map(findingFrom);
  // An approval takes the place of the reasons that it lifts.
  return isFired && told.length === 0 ? [{ code: "PROVENANCE_NOT_TRUSTED", message: "", rule: rule.path }] : [];
}

const findingFrom = ({ code, message, rule = "", argument, value_kind: valueKind }: SealedReason): Finding => ({
  code: code as FindingCode,
  message,
  rule,
  ...(argument !== undefined && { argument }),
  ...(valueKind !== undefined && { valueKind }),
});
