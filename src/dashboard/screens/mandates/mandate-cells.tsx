import { Link } from "wouter";
import { type Mandate, MandateMode, RuleTypeSchema } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge, DecisionBadge } from "../../kit/badge.tsx";
import { countText } from "../../kit/count-text.ts";
import { Shown, shownText } from "../../kit/shown.tsx";
import type { Firings } from "./use-firings.ts";

const SCOPES: Readonly<Record<number, string>> = { [Scope.DEPARTMENT]: "one department", [Scope.AGENT]: "one agent" };
const SEVEREST_FIRST = [Decision.BLOCK, Decision.ESCALATE, Decision.ALLOW];

/** A mandate of the list; `firings` is undefined until they are read, and when the mandate is not among the most frequent. */
export interface ListedMandate {
  readonly mandate: Mandate;
  readonly firings: Firings | undefined;
}

/** Returns the types of a mandate's rules, each once. */
export const ruleTypesOf = ({ rules }: Mandate): readonly string[] => [
  ...new Set(rules.map(({ type }) => RuleTypeSchema.value[type]?.localName.toLowerCase() ?? "argument")),
];

/** Writes how many rules a mandate has, of which types: `2 argument rules`, `3 rules: action, sequence`. */
export function rulesText(mandate: Mandate): string {
  const types = ruleTypesOf(mandate);
  const [type] = types;
  if (types.length === 1 && type !== undefined) return countText(mandate.rules.length, `${type} rule`);
  return `${countText(mandate.rules.length, "rule")}: ${types.join(", ")}`;
}

/** Names a mandate, its pack and its faults. */
export function MandateName({ mandate }: { readonly mandate: Mandate }) {
  const { mandateId, name, scope, priority, pack, version, violations } = mandate;
  return (
    <>
      <Link href={`/mandates/${mandateId}`} className="mandate-name">
        <Shown text={name} />
      </Link>{" "}
      {violations.length === 0 ? null : (
        <Badge tone="bad">{countText(violations.length, "rule no longer compiles", "rules no longer compile")}</Badge>
      )}
      <span className="hint mandate-facts">
        for {SCOPES[scope] ?? "the workspace"}
        {priority === 0 ? "" : `, priority ${priority}`}
        {pack === undefined ? "" : `, of pack ${shownText(pack)}`}, version {version}
      </span>
    </>
  );
}

/** Shows the decisions of a mandate's rules, the most severe first. */
export function MandateDecisions({ mandate: { rules } }: { readonly mandate: Mandate }) {
  const decisions = new Set(rules.map(({ decision }) => decision));
  return (
    <span className="mandate-decisions">
      {SEVEREST_FIRST.filter((each) => decisions.has(each)).map((each) => (
        <DecisionBadge key={each} decision={each} />
      ))}
    </span>
  );
}

/** Says whether a mandate enforces or only observes. */
export const MandateModeBadge = ({ mandate: { mode } }: { readonly mandate: Mandate }) => (
  <Badge tone={mode === MandateMode.OBSERVE ? "plain" : "good"}>
    {mode === MandateMode.OBSERVE ? "observes" : "enforces"}
  </Badge>
);
