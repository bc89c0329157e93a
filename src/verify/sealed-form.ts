import { isJsonRecord, type JsonRecord, type JsonValue, listAt, valueAt } from "./json.ts";

/** Version of bodies that leave out what follows from their other members. */
const BRIEF = 2;

/** Tests whether a body is of a version that this verifier can read. The first one has no member `v`. */
export const isKnownVersion = ({ v }: JsonRecord): boolean => v === undefined || v === BRIEF;

/** Returns the body of a decision with the members that its version leaves out, and any other body as it is. */
export function restored(body: JsonRecord): JsonRecord {
  if (body.type !== "decision" || body.v !== BRIEF) return body;
  return {
    decision_path: "default",
    ...body,
    authorisation: {
      permissions: "admitted",
      ...(isJsonRecord(body.authorisation) ? body.authorisation : {}),
      collective_limits: listAt(body, "authorisation.collective_limits").map((limit) => restoredLimit(limit, body)),
    },
    ...(body.observed === undefined ? {} : { observed: listAt(body, "observed").map(restoredObserved) }),
  };
}

/** Restores a limit: it names its group if that is a department or another agent than the one that acts. */
function restoredLimit(limit: JsonValue, body: JsonRecord): JsonValue {
  if (!isJsonRecord(limit)) return limit;
  const isDepartment = typeof limit.group === "string" && limit.group.startsWith("dep_");
  const { scope = isDepartment ? "department" : "agent" } = limit;
  const owner = valueAt(body, scope === "workspace" ? "workspace_id" : "action.agent_id");
  return { rule: "rules[0]", members: 1, source: "decision_log", group: owner ?? null, ...limit, scope };
}

function restoredObserved(mandate: JsonValue): JsonValue {
  if (!isJsonRecord(mandate)) return mandate;
  const { mandate_id = null } = mandate;
  const reasons = listAt(mandate, "reasons").map((reason) =>
    isJsonRecord(reason) ? { mandate_id, ...reason } : reason,
  );
  return { ...mandate, reasons };
}
