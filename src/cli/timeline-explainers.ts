import { approvedBy, needsIn, type ToldNeed } from "../explain/approvals.ts";
import { plainText } from "../explain/sentence.ts";
import { isJsonRecord, type JsonRecord, listAt, textAt, valueAt } from "../verify/json.ts";

/** References of a decision, whose entries explain it. */
export interface DecisionReferences {
  readonly decisionId: string;
  /** Index of the decision's entry. */
  readonly index: number;
  /** The acting agent. */
  readonly actorId: string;
  /** The actor, and the agent on whose behalf it acted. */
  readonly agentIds: ReadonlySet<string>;
  /** Version of each mandate that was enforced or observed, with its digest if the decision names it. */
  readonly mandates: ReadonlyMap<string, { readonly version: unknown; readonly digest: string }>;
  readonly tool: { readonly name: string; readonly version: unknown; readonly digest: string } | undefined;
  /** Sessions, credentials, grants, temporal windows, intent contracts, federation tokens and tool policies. */
  readonly authorityIds: ReadonlySet<string>;
  /** Digest of each named list that rules looked into, by name; empty for one that did not exist. */
  readonly lists: ReadonlyMap<string, string>;
  readonly keyId: string;
  /** Escalations that the decision created, used, was presented with or replaces. */
  readonly escalationIds: ReadonlySet<string>;
}

const AUTHORITY_ID = /^(ses|crd|grt|tmw|itc|fed|mtp)_/;

/** Reads the references from a decision's body. */
export function referencesIn(decision: JsonRecord): DecisionReferences {
  const actorId = textAt(decision, "action.agent_id");
  const named = ["session_id", "grant_id", "intent_contract_id", "key_id"].map((name) => textAt(decision, name));
  const inReasons = listAt(decision, "reasons").flatMap((reason) => idsIn(textAt(reason, "message")));
  const contracts = listAt(decision, "contracts").map((contract) => textAt(contract, "intent_contract_id"));
  const applied = [...listAt(decision, "authority").map(String), ...contracts];
  const escalations = ["escalation_id", "used_escalation_id", "presented_escalation_id", "edit_of"];
  return {
    decisionId: textAt(decision, "decision_id"),
    index: Number(decision.seq),
    actorId,
    agentIds: new Set([actorId, textAt(decision, "on_behalf_of")].filter((id) => id !== "")),
    mandates: mandatesIn(decision),
    tool: toolIn(decision),
    lists: new Map(listAt(decision, "lists").map((list) => [textAt(list, "name"), textAt(list, "digest")])),
    authorityIds: new Set([...named, ...applied, ...inReasons].filter((id) => AUTHORITY_ID.test(id))),
    keyId: textAt(decision, "key_id"),
    escalationIds: new Set(escalations.map((name) => textAt(decision, name)).filter((id) => id !== "")),
  };
}

/** Returns the ids that a sentence names in backticks. */
function idsIn(sentence: string): string[] {
  return [...sentence.matchAll(/`([a-z]{2,3}_[a-z2-7]{26})`/g)].map(([, id = ""]) => id);
}

function mandatesIn(decision: JsonRecord): DecisionReferences["mandates"] {
  const named = [...listAt(decision, "mandates"), ...listAt(decision, "observed")];
  return new Map(
    named.map((each) => [
      textAt(each, "mandate_id"),
      { version: valueAt(each, "version"), digest: textAt(each, "digest") },
    ]),
  );
}

function toolIn(decision: JsonRecord): DecisionReferences["tool"] {
  const version = valueAt(decision, "action.tool_version");
  if (version === undefined) return undefined;
  return { name: textAt(decision, "action.tool"), version, digest: textAt(decision, "action.tool_digest") };
}

/** An event that concerns a decision. */
export interface Event {
  /** The subject of the event; a later event on the same topic replaces it. */
  readonly topic: string;
  /** A plain sentence. */
  readonly text: string;
}

/** Facts of the entries before one, which tell who approved what. */
export class Answers {
  readonly #needs = new Map<string, ToldNeed[]>();
  readonly #names = new Map<string, string>();

  /** Records an entry and the name of its author. MUST be called for every entry, in order. */
  add(entry: JsonRecord, by: string, byName: string | undefined): void {
    if (byName !== undefined) this.#names.set(by, byName);
    const needs = entry.decision === "escalate" ? needsIn(entry) : [];
    const id = textAt(entry, "escalation_id");
    if (needs.length > 0) this.#needs.set(id, [...(this.#needs.get(id) ?? []), ...needs]);
  }

  /** Tells who approved an escalation; undefined for a resolution without several approvals. */
  told(resolved: JsonRecord): string | undefined {
    const approvals = listAt(resolved, "approvals").map((approval) => {
      const by = textAt(approval, "by");
      return { name: this.#names.get(by) ?? by, groups: listAt(approval, "groups").map(String) };
    });
    if (approvals.length === 0) return undefined;
    const isInside = (needed: readonly string[], groups: readonly string[]): boolean =>
      needed.length === 0 || needed.some((name) => groups.includes(name));
    const needs = (this.#needs.get(textAt(resolved, "escalation_id")) ?? []).map((need) => ({
      ...need,
      given: approvals.filter(({ groups }) => isInside(need.groups, groups)).length,
    }));
    return plainText(approvedBy({ needs, approvals }))
      .replace(/^Approved/, "approved")
      .replace(/\.$/, "");
  }
}

/** Explains how an entry concerns a decision; undefined, or an empty list, if it does not. */
type Explainer = (
  entry: JsonRecord,
  references: DecisionReferences,
  answers: Answers,
) => Event | readonly Event[] | undefined;

/** Returns the events of an entry that concern a decision; most entries have none. */
export function eventsIn(entry: JsonRecord, references: DecisionReferences, answers: Answers): readonly Event[] {
  const explainers = EXPLAINERS.get(textAt(entry, "type")) ?? [];
  return explainers.flatMap((explain) => explain(entry, references, answers) ?? []);
}

const quoted = (text: string): string => `\`${text}\``;
const listed = (values: readonly unknown[]): string => (values.length === 0 ? "any" : values.map(String).join(", "));

const settings: Explainer = ({ workspace }) => ({
  topic: "settings",
  text: `the workspace decides ${textAt(workspace, "default_decision")} where no mandate matches; new agents start with trust ${Number(valueAt(workspace, "initial_trust_tenths")) / 10}`,
});

const registered: Explainer = ({ agent }, { agentIds }) => {
  const id = textAt(agent, "agent_id");
  if (!agentIds.has(id)) return undefined;
  const [allowed, denied] = [listAt(agent, "allowed_action_types"), listAt(agent, "denied_action_types")];
  const denial = denied.length === 0 ? "" : `; denied: ${listed(denied)}`;
  const capabilities = listAt(agent, "capabilities");
  const capable = capabilities.length === 0 ? "" : `; capabilities: ${listed(capabilities)}`;
  const text = `agent ${id} (${quoted(textAt(agent, "name"))}) registered; allowed: ${listed(allowed)}${denial}${capable}; trust ${Number(valueAt(agent, "trust_tenths")) / 10}`;
  return { topic: `registered ${id}`, text };
};

const requirementsSet: Explainer = (entry, { agentIds }) => {
  const id = textAt(entry, "agent_id");
  if (!agentIds.has(id)) return undefined;
  const requires = listAt(entry, "requires");
  const needs = requires.length === 0 ? "nothing" : listed(requires);
  return { topic: `requirements ${id}`, text: `every action of agent ${id} must have: ${needs}` };
};

const deactivated: Explainer = (entry, { agentIds }) => {
  const id = textAt(entry, "agent_id");
  return agentIds.has(id) ? { topic: `deactivated ${id}`, text: `agent ${id} deactivated` } : undefined;
};

const revoked: Explainer = (entry, { agentIds, authorityIds }) => {
  const id = textAt(entry, "agent_id");
  const ended = Object.values((entry.ended ?? {}) as JsonRecord).flat();
  const touched = ended.filter((each) => authorityIds.has(String(each)));
  if (!agentIds.has(id) && touched.length === 0) return undefined;
  const also = touched.length === 0 ? "" : `, and with it ${listed(touched)}`;
  const reason = textAt(entry, "reason");
  const why = reason === "" ? "" : ` because ${quoted(reason)}`;
  return { topic: `revoked ${id}`, text: `agent ${id} revoked${why}${also} (${textAt(entry, "revocation_id")})` };
};

const member =
  (verb: string): Explainer =>
  (entry, { agentIds }) => {
    const [department, agent] = [textAt(entry, "department_id"), textAt(entry, "agent_id")];
    if (!agentIds.has(agent)) return undefined;
    return { topic: `member ${department} ${agent}`, text: `agent ${agent} ${verb} department ${department}` };
  };

/** Returns a warning if an entry's digest differs from the digest in the decision. */
const digestNote = (named: string, found: string): string =>
  named === "" || named === found ? "" : `, whose digest ${found} is NOT the digest in the decision (${named})`;

const toolRegistered: Explainer = ({ tool }, { tool: named }) => {
  const isNamed =
    named !== undefined && textAt(tool, "name") === named.name && valueAt(tool, "version") === named.version;
  if (!isNamed) return undefined;
  const note = digestNote(named.digest, textAt(tool, "digest"));
  return { topic: "tool", text: `tool ${quoted(named.name)} version ${String(named.version)} registered${note}` };
};

const listChanged: Explainer = ({ list }, { lists }) => {
  const [name, digest] = [textAt(list, "name"), textAt(list, "digest_after")];
  const used = lists.get(name);
  if (used === undefined) return undefined;
  const [added, removed, size] = ["added", "removed", "size"].map((each) => String(valueAt(list, each)));
  const text = digest === "" ? "deleted" : `changed (${added} added, ${removed} removed, ${size} values)`;
  const use =
    digest !== used ? "" : digest === "" ? ", as the decision found it" : ", to the digest that the decision used";
  return { topic: `list ${name}`, text: `list ${quoted(name)} ${text}${use}` };
};

/** Explains the publication of a mandate. `by` names the larger change that published it, if any. */
function publicationOf(mandate: unknown, { mandates }: DecisionReferences, by = ""): Event | undefined {
  const id = textAt(mandate, "mandate_id");
  const named = mandates.get(id);
  if (named === undefined || valueAt(mandate, "version") !== named.version) return undefined;
  const note = digestNote(named.digest, textAt(mandate, "digest"));
  const name = quoted(textAt(mandate, "definition.name"));
  const text = `mandate ${id} (${name}) version ${String(named.version)} published${by}${note}`;
  return { topic: `mandate ${id}`, text };
}

const mandatePublished: Explainer = ({ mandate }, references) => publicationOf(mandate, references);

const packApplied: Explainer = (entry, references) => {
  const by = ` with version ${String(valueAt(entry, "pack.version"))} of pack ${quoted(textAt(entry, "pack.name"))}`;
  return listAt(entry, "published").flatMap((mandate) => publicationOf(mandate, references, by) ?? []);
};

/** Ends of an escalation without a person, by cause. */
const ENDS: ReadonlyMap<string, string> = new Map([
  ["expiry", " because its time was up"],
  ["withdrawal", " because every request was withdrawn"],
]);

const resultGiven: Explainer = (entry, { decisionId }) => {
  if (textAt(entry, "decision_id") !== decisionId) return undefined;
  const result = textAt(entry, "result");
  const what = result === "kept" ? "got its result" : `heard that its result is ${result}`;
  return { topic: "result given", text: `an identical call of decision ${decisionId} ${what}` };
};

const escalationWithdrawn: Explainer = (entry, { escalationIds }) => {
  const id = textAt(entry, "escalation_id");
  if (!escalationIds.has(id)) return undefined;
  const left = String(valueAt(entry, "asked"));
  return { topic: `withdrawn ${id}`, text: `a request for escalation ${id} was withdrawn, which leaves ${left}` };
};

const escalationResolved: Explainer = (entry, { escalationIds }, answers) => {
  const id = textAt(entry, "escalation_id");
  if (!escalationIds.has(id)) return undefined;
  const note = textAt(entry, "note");
  const cause = ENDS.get(textAt(entry, "cause")) ?? "";
  const suffix = note === "" ? cause : ` with the note ${quoted(note)}`;
  const resolution = answers.told(entry) ?? textAt(entry, "resolution");
  const text = `escalation ${id} ${resolution}${editIn(entry)}${suffix}`;
  return { topic: `resolved ${id}`, text };
};

/** Describes the edit of a resolution, if any. */
function editIn(entry: JsonRecord): string {
  const [from, to] = [textAt(entry, "edited_from"), textAt(entry, "edit.replaced_by")];
  if (from !== "") return ` by an edit of ${from}`;
  if (textAt(entry, "edit.edited_digest") === "") return "";
  return to === "" ? ", edited into an action that needs no approval" : `, edited into ${to}`;
}

const escalationExtended: Explainer = (entry, { escalationIds }) => {
  const id = textAt(entry, "escalation_id");
  if (!escalationIds.has(id)) return undefined;
  return { topic: `extended ${id}`, text: `escalation ${id} extended to ${textAt(entry, "expires_at")}` };
};

const approvalGiven: Explainer = (entry, { escalationIds }) => {
  const id = textAt(entry, "escalation_id");
  if (!escalationIds.has(id)) return undefined;
  const note = textAt(entry, "note");
  const suffix = note === "" ? "" : ` with the note ${quoted(note)}`;
  return {
    topic: `approval ${id} ${textAt(entry, "by")}`,
    text: `escalation ${id} approved as one of several${suffix}`,
  };
};

const approvalWithdrawn: Explainer = (entry, { escalationIds }) => {
  const id = textAt(entry, "escalation_id");
  if (!escalationIds.has(id)) return undefined;
  return { topic: `approval ${id} ${textAt(entry, "by")}`, text: `an approval of escalation ${id} taken back` };
};

const reminded: Explainer = (entry, { escalationIds }) => {
  const id = textAt(entry, "escalation_id");
  return escalationIds.has(id) ? { topic: `reminded ${id}`, text: `people reminded of escalation ${id}` } : undefined;
};

const keyCreated: Explainer = ({ key }, { keyId }) =>
  textAt(key, "key_id") === keyId
    ? { topic: "key", text: `key ${keyId} (${quoted(textAt(key, "name"))}) made` }
    : undefined;

const keyRevoked: Explainer = (entry, { keyId }) =>
  textAt(entry, "key_id") === keyId ? { topic: "key revoked", text: `key ${keyId} revoked` } : undefined;

/** Lists the terms of a piece of authority, depending on its kind. */
function termsOf(authority: unknown): string {
  const expires = valueAt(authority, "expires_at_ms");
  const terms = [
    ["of", textAt(authority, "agent_id")],
    ["lent by", textAt(authority, "grantor_agent_id")],
    ["passing on", textAt(authority, "parent_grant_id")],
    ["for", listAt(authority, "action_types").join(", ")],
    ["on server", textAt(authority, "server")],
    ["on tools", textAt(authority, "tool")],
    ["deciding", textAt(authority, "decision")],
    ["until", typeof expires === "number" ? new Date(expires).toISOString() : ""],
  ] as const;
  return terms.flatMap(([word, value]) => (value === "" ? [] : ` ${word} ${value}`)).join("");
}

const authorityCreated: Explainer = ({ authority }, { authorityIds }) => {
  const id = textAt(authority, "id");
  if (!authorityIds.has(id)) return undefined;
  const kind = textAt(authority, "kind").replaceAll("_", " ");
  return { topic: `made ${id}`, text: `${kind} ${id}${termsOf(authority)} made` };
};

const authorityEnded: Explainer = (entry, { authorityIds }) => {
  const ids = listAt(entry, "ids").filter((id) => authorityIds.has(String(id)));
  return ids.length === 0 ? undefined : { topic: `ended ${ids.join()}`, text: `${listed(ids)} ended` };
};

const escalated: Explainer = (entry, { escalationIds }) => {
  const id = textAt(entry, "decision_id");
  const [made, used] = [textAt(entry, "escalation_id"), textAt(entry, "used_escalation_id")];
  const isFirst = textAt(entry, "escalation_expires_at") !== "";
  if (escalationIds.has(made) && !isFirst)
    return { topic: `asked ${made}`, text: `decision ${id} asked for ${made} again` };
  const edited = textAt(entry, "edit_of");
  const what = edited === "" ? "the action" : `the edited action of ${edited}`;
  if (escalationIds.has(made)) return { topic: `made ${made}`, text: `decision ${id} escalated ${what} as ${made}` };
  if (!escalationIds.has(used)) return undefined;
  return { topic: `used ${used}`, text: `decision ${id} used the approval of ${used}` };
};

const trustChanged: Explainer = (entry, { actorId }) => {
  if (textAt(entry, "action.agent_id") !== actorId) return undefined;
  const [id, verdict] = [textAt(entry, "decision_id"), textAt(entry, "decision")];
  const trust = String(valueAt(entry, "trust.after"));
  return { topic: "trust", text: `decision ${id} (${verdict}) left agent ${actorId} with trust ${trust}` };
};

/** The explainers of each type of entry. Types that are not listed never concern a decision. */
const claimed: Explainer = (entry, { decisionId }) => {
  if (textAt(entry, "decision_id") !== decisionId) return undefined;
  return { topic: "claimed", text: `its action claimed as ${textAt(entry, "claim_id")}` };
};

/** Tests whether a budget keeps its amount until the gateway or an operator reports the outcome. */
const isHeld = (entry: JsonRecord): boolean =>
  listAt(entry, "reserved").some((amount) => isJsonRecord(amount) && amount.held === true);

const ended: Explainer = (entry, { decisionId }) => {
  if (textAt(entry, "decision_id") !== decisionId) return undefined;
  const [status, error] = [textAt(entry, "status"), textAt(entry, "error")];
  const settles = valueAt(entry, "settles") === true;
  if (status === "unknown")
    return { topic: "outcome", text: "nobody reported in time how it ended: its outcome is unknown" };
  const amount = valueAt(entry, "amount");
  const sum = amount === undefined ? "" : ` with the amount ${String(amount)}`;
  const why = error === "" ? "" : ` because ${quoted(error)}`;
  const text = `its action reported as ${status}${sum}${why}`;
  if (!settles) return { topic: "outcome", text: isHeld(entry) ? `${text}, which awaits confirmation` : text };
  const what = textAt(entry, "unknown_at") === "" ? "settles what the agent reported" : "settles the unknown outcome";
  return { topic: "settlement", text: `${text}, which ${what}` };
};

const EXPLAINERS: ReadonlyMap<string, readonly Explainer[]> = new Map<string, readonly Explainer[]>([
  ["workspace_created", [settings]],
  ["workspace_updated", [settings]],
  ["agent_registered", [registered]],
  ["agent_deactivated", [deactivated]],
  ["agent_requirements_set", [requirementsSet]],
  ["agent_revoked", [revoked]],
  ["department_member_added", [member("joined")]],
  ["department_member_removed", [member("left")]],
  ["tool_registered", [toolRegistered]],
  ["list_changed", [listChanged]],
  ["mandate_published", [mandatePublished]],
  ["pack_applied", [packApplied]],
  ["escalation_resolved", [escalationResolved]],
  ["escalation_withdrawn", [escalationWithdrawn]],
  ["escalation_extended", [escalationExtended]],
  ["escalation_approval_given", [approvalGiven]],
  ["escalation_approval_withdrawn", [approvalWithdrawn]],
  ["escalation_reminded", [reminded]],
  ["mcp_result_given", [resultGiven]],
  ["key_created", [keyCreated]],
  ["key_revoked", [keyRevoked]],
  ["authority_created", [authorityCreated]],
  ["authority_ended", [authorityEnded]],
  ["decision", [escalated, trustChanged]],
  ["claim", [claimed]],
  ["outcome", [ended]],
]);
