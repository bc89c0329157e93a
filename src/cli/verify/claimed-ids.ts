import type { JsonMembers } from "./canonical-text.ts";

type Way = readonly [string, ...string[]];

/** What an entry of a type claims for itself alone: the members, by their way into the body, that make one id together. */
const CLAIMS: Readonly<Record<string, readonly (readonly Way[])[]>> = {
  workspace_created: [[["workspace_id"]]],
  agent_registered: [[["agent", "agent_id"]]],
  agent_revoked: [[["revocation_id"]]],
  department_created: [[["department", "department_id"]]],
  tool_registered: [
    [
      ["tool", "name"],
      ["tool", "version"],
    ],
  ],
  mandate_published: [
    [
      ["mandate", "mandate_id"],
      ["mandate", "version"],
    ],
  ],
  key_created: [[["key", "key_id"]]],
  authority_created: [[["authority", "id"]]],
  escalation_resolved: [[["escalation_id"]]],
  // An approval is used up by one decision.
  decision: [[["decision_id"]], [["escalation_id"]], [["used_escalation_id"]]],
};

function valueAt(members: JsonMembers, way: Way): unknown {
  return way.reduce<unknown>((value, name) => (value as JsonMembers | null | undefined)?.[name], members);
}

/** The ids that no other entry of the log may claim. None for a type that is not known here. */
export function claimedIds(members: JsonMembers): string[] {
  const type = String(members.type);
  const claims = Object.hasOwn(CLAIMS, type) ? (CLAIMS[type] ?? []) : [];
  return claims.flatMap((ways) => {
    const values = ways.map((way) => valueAt(members, way));
    return values.includes(undefined) ? [] : `${type} ${ways[0]?.at(-1)} ${values.join(" ")}`;
  });
}
