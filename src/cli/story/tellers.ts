import type { JsonMembers } from "../verify/index.ts";
import { at, listAt, textAt } from "./members.ts";
import type { Subject } from "./subject.ts";

/** What an entry tells of a decision. */
export interface Told {
  /** What it is about; a later entry about the same takes its place. */
  readonly about: string;
  /** A plain sentence. */
  readonly text: string;
}

/** Tells what an entry of one type has to do with a decision; undefined for nothing. */
type Teller = (entry: JsonMembers, subject: Subject) => Told | undefined;

const quoted = (text: string): string => `\`${text}\``;
const listed = (values: readonly unknown[]): string => (values.length === 0 ? "any" : values.map(String).join(", "));

const settings: Teller = ({ workspace }) => ({
  about: "settings",
  text: `the workspace decides ${textAt(workspace, "default_decision")} where no mandate matches; new agents start with trust ${Number(at(workspace, "initial_trust_tenths")) / 10}`,
});

const registered: Teller = ({ agent }, { agentIds }) => {
  const id = textAt(agent, "agent_id");
  if (!agentIds.has(id)) return undefined;
  const [allowed, denied] = [listAt(agent, "allowed_action_types"), listAt(agent, "denied_action_types")];
  const denial = denied.length === 0 ? "" : `; denied: ${listed(denied)}`;
  const capabilities = listAt(agent, "capabilities");
  const capable = capabilities.length === 0 ? "" : `; capabilities: ${listed(capabilities)}`;
  const text = `agent ${id} (${quoted(textAt(agent, "name"))}) registered; allowed: ${listed(allowed)}${denial}${capable}; trust ${Number(at(agent, "trust_tenths")) / 10}`;
  return { about: `registered ${id}`, text };
};

const deactivated: Teller = (entry, { agentIds }) => {
  const id = textAt(entry, "agent_id");
  return agentIds.has(id) ? { about: `deactivated ${id}`, text: `agent ${id} deactivated` } : undefined;
};

const revoked: Teller = (entry, { agentIds, authorityIds }) => {
  const id = textAt(entry, "agent_id");
  const ended = Object.values((entry.ended ?? {}) as JsonMembers).flat();
  const touched = ended.filter((each) => authorityIds.has(String(each)));
  if (!agentIds.has(id) && touched.length === 0) return undefined;
  const also = touched.length === 0 ? "" : `, and with it ${listed(touched)}`;
  const reason = textAt(entry, "reason");
  const why = reason === "" ? "" : ` because ${quoted(reason)}`;
  return { about: `revoked ${id}`, text: `agent ${id} revoked${why}${also} (${textAt(entry, "revocation_id")})` };
};

const member =
  (verb: string): Teller =>
  (entry, { agentIds }) => {
    const [department, agent] = [textAt(entry, "department_id"), textAt(entry, "agent_id")];
    if (!agentIds.has(agent)) return undefined;
    return { about: `member ${department} ${agent}`, text: `agent ${agent} ${verb} department ${department}` };
  };

/** What the entry adds when its digest is another one than the decision names. */
const digestNote = (named: string, found: string): string =>
  named === "" || named === found ? "" : `, whose digest ${found} is NOT the one that the decision names (${named})`;

const toolRegistered: Teller = ({ tool }, { tool: named }) => {
  const isNamed = named !== undefined && textAt(tool, "name") === named.name && at(tool, "version") === named.version;
  if (!isNamed) return undefined;
  const note = digestNote(named.digest, textAt(tool, "digest"));
  return { about: "tool", text: `tool ${quoted(named.name)} version ${String(named.version)} registered${note}` };
};

const mandatePublished: Teller = ({ mandate }, { mandates }) => {
  const id = textAt(mandate, "mandate_id");
  const named = mandates.get(id);
  if (named === undefined || at(mandate, "version") !== named.version) return undefined;
  const note = digestNote(named.digest, textAt(mandate, "digest"));
  const name = quoted(textAt(mandate, "definition", "name"));
  return { about: `mandate ${id}`, text: `mandate ${id} (${name}) version ${String(named.version)} published${note}` };
};

const escalationResolved: Teller = (entry, { escalationIds }) => {
  const id = textAt(entry, "escalation_id");
  if (!escalationIds.has(id)) return undefined;
  const note = textAt(entry, "note");
  const said = note === "" ? "" : ` with the note ${quoted(note)}`;
  return { about: `resolved ${id}`, text: `escalation ${id} ${textAt(entry, "resolution")}${said}` };
};

const keyCreated: Teller = ({ key }, { keyId }) =>
  textAt(key, "key_id") === keyId
    ? { about: "key", text: `key ${keyId} (${quoted(textAt(key, "name"))}) made` }
    : undefined;

const keyRevoked: Teller = (entry, { keyId }) =>
  textAt(entry, "key_id") === keyId ? { about: "key revoked", text: `key ${keyId} revoked` } : undefined;

/** What a piece of authority says of itself, as far as its kind has it. */
function termsOf(authority: unknown): string {
  const expires = at(authority, "expires_at_ms");
  const terms = [
    ["of", [textAt(authority, "agent_id")]],
    ["lent by", textAt(authority, "grantor_agent_id")],
    ["passing on", textAt(authority, "parent_grant_id")],
    ["for", [listAt(authority, "action_types").join(", ")]],
    ["on server", textAt(authority, "server")],
    ["on tools", textAt(authority, "tool")],
    ["deciding", [textAt(authority, "decision")]],
    ["until", [typeof expires === "number" ? new Date(expires).toISOString() : ""]],
  ] as const;
  return terms.flatMap(([word, value]) => (value === "" ? [] : ` ${word} ${value}`)).join("");
}

const authorityCreated: Teller = ({ authority }, { authorityIds }) => {
  const id = textAt(authority, "id");
  if (!authorityIds.has(id)) return undefined;
  const kind = textAt(authority, "kind").replaceAll("_", " ");
  return { about: `made ${id}`, text: `${kind} ${id}${termsOf(authority)} made` };
};

const authorityEnded: Teller = (entry, { authorityIds }) => {
  const ids = listAt(entry, "ids").filter((id) => authorityIds.has(String(id)));
  return ids.length === 0 ? undefined : { about: `ended ${ids.join()}`, text: `${listed(ids)} ended` };
};

const escalated: Teller = (entry, { escalationIds }) => {
  const id = textAt(entry, "decision_id");
  const [made, used] = [textAt(entry, "escalation_id"), textAt(entry, "used_escalation_id")];
  if (escalationIds.has(made)) return { about: `made ${made}`, text: `decision ${id} escalated the action as ${made}` };
  if (!escalationIds.has(used)) return undefined;
  return { about: `used ${used}`, text: `decision ${id} used the approval of ${used}` };
};

const trustLeft: Teller = (entry, { actorId }) => {
  if (textAt(entry, "action", "agent_id") !== actorId) return undefined;
  const [id, verdict] = [textAt(entry, "decision_id"), textAt(entry, "decision")];
  const text = `decision ${id} (${verdict}) left agent ${actorId} with trust ${String(at(entry, "trust", "after"))}`;
  return { about: "trust", text };
};

/** What each type of entry tells. A type that is not listed tells nothing. */
const TELLERS: ReadonlyMap<string, readonly Teller[]> = new Map<string, readonly Teller[]>([
  ["workspace_created", [settings]],
  ["workspace_updated", [settings]],
  ["agent_registered", [registered]],
  ["agent_deactivated", [deactivated]],
  ["agent_revoked", [revoked]],
  ["department_member_added", [member("joined")]],
  ["department_member_removed", [member("left")]],
  ["tool_registered", [toolRegistered]],
  ["mandate_published", [mandatePublished]],
  ["escalation_resolved", [escalationResolved]],
  ["key_created", [keyCreated]],
  ["key_revoked", [keyRevoked]],
  ["authority_created", [authorityCreated]],
  ["authority_ended", [authorityEnded]],
  ["decision", [escalated, trustLeft]],
]);

/** What an entry has to do with a decision; usually nothing. */
export function toldBy(entry: JsonMembers, subject: Subject): readonly Told[] {
  const tellers = TELLERS.get(textAt(entry, "type")) ?? [];
  return tellers.flatMap((teller) => teller(entry, subject) ?? []);
}
