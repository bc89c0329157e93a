import type { JsonObject } from "@bufbuild/protobuf";
import { clone } from "@bufbuild/protobuf";
import { type Rule, RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { MandateSource, RuleViolation, ToolLookup } from "../policy/types.ts";
import type { SealedMandate } from "../state/control-changes.ts";
import { type MandateState, mandateSourceFrom } from "../state/policies.ts";
import type { MandateVersionRow } from "../store/entities.ts";

/** What people write as a mandate. */
export type MandateDraft = Omit<MandateSource, "id" | "version" | "digest"> & { readonly description: string };

/** Where a mandate stands: in force, in force with rules that no longer compile, or out of force. */
export type MandateStatusWord = "active" | "stale" | "archived";

/** One version of a mandate as it is shown. */
export interface MandateView extends Omit<MandateDraft, "rules"> {
  readonly mandateId: string;
  readonly version: number;
  readonly digest: string;
  /** As written, each with the type that the compiler chooses for it. */
  readonly rules: readonly Rule[];
  /** `archived` for every version that is no longer in force. */
  readonly status: MandateStatusWord;
  /** Why it is stale; empty unless it is. */
  readonly violations: readonly RuleViolation[];
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Index of the entry that created the mandate. */
  readonly createdSeq: number;
}

/** A rule that is in no compiled mandate, or does not compile there, with the type that its tool gives it. */
function typedRule(rule: Rule, tools: ToolLookup): Rule {
  const tool = rule.tool?.trim();
  if (rule.type !== RuleType.UNSPECIFIED || tool === undefined || tool === "") return rule;
  const copy = clone(RuleSchema, rule);
  copy.type = tools(tool) === undefined ? RuleType.METADATA : RuleType.ARGUMENT;
  return copy;
}

/** The mandate in force as it is shown. */
export function viewFromState(mandate: MandateState, tools: ToolLookup): MandateView {
  const { compiled, sealed, createdAtMs, updatedAtMs, createdSeq } = mandate;
  const { version, digest, name, scope, departmentId, agentId, priority, mode, violations } = compiled;
  return {
    mandateId: compiled.id,
    ...{ version, digest, name, scope, departmentId, agentId, priority, mode, violations },
    description: String(sealed.definition.description ?? ""),
    rules: compiled.rules.map(({ source }) => typedRule(source, tools)),
    status: violations.length === 0 ? "active" : "stale",
    ...{ createdAtMs, updatedAtMs, createdSeq },
  };
}

/** A version that is not in force as it is shown. */
export function viewFromRow(row: MandateVersionRow, tools: ToolLookup): MandateView {
  const { mandateId, version, digest, createdAtMs, updatedAtMs, createdSeq } = row;
  const definition = row.definition as JsonObject;
  const sealed: SealedMandate = { mandate_id: mandateId, version, digest, definition };
  const { id: _id, rules, ...source } = mandateSourceFrom(sealed);
  return {
    mandateId,
    ...source,
    description: String(definition.description ?? ""),
    rules: rules.map((rule) => typedRule(rule, tools)),
    status: "archived",
    violations: [],
    ...{ createdAtMs, updatedAtMs, createdSeq },
  };
}
