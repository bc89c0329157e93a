import { retryAfterMs } from "../retry/retry-after.ts";
import { type JsonValue, listAt, numberAt, textAt, valueAt } from "../verify/json.ts";
import { demanded } from "./approvals.ts";
import type { Named, Part, Sentence } from "./sentence.ts";

const PAST: ReadonlyMap<string, string> = new Map([
  ["allow", "allowed"],
  ["block", "blocked"],
  ["escalate", "escalated to a person"],
]);

/** Explains a decision in sentences from its sealed text alone: the action, the decision and its effects. */
export function receiptSentences(body: unknown): readonly Sentence[] {
  return [
    asked(body),
    decided(body),
    ...refusedByBudgets(body),
    ...retry(body),
    ...reservedIn(body),
    ...lists(body),
    ...approval(body),
    ...followed(body),
    trust(body),
    ...capped(body),
    ...ended(body),
  ];
}

const agentPart = (id: string, name = ""): Part => ({ quoted: name || id, names: { kind: "agent", id } });
const escalationPart = (id: string): Part => ({ quoted: id, names: { kind: "escalation", id } });

function asked(body: unknown): Sentence {
  const tool = textAt(body, "action.tool");
  const type = textAt(body, "action.action_type");
  const principal = textAt(body, "on_behalf_of");
  return [
    "Agent ",
    agentPart(textAt(body, "action.agent_id"), textAt(body, "action.agent_name")),
    " asked",
    ...(principal === "" ? [] : [" on behalf of agent ", agentPart(principal)]),
    " to do ",
    { quoted: type },
    ...(tool === "" ? [] : [" with the tool ", { quoted: tool, names: { kind: "tool", id: tool } } as const]),
    ".",
  ];
}

/** Endings of the sentence about the decision, by the step that decided. */
const PATHS: ReadonlyMap<string, string> = new Map([
  ["halted", " because the workspace was halted; this counts in no limit."],
  ["revoked", " because the agent was deactivated or revoked."],
  ["permissions", " because the agent's permissions and capabilities do not admit this action type."],
  ["delegation", " because no active chain of grants lets the agent act for that principal."],
  [
    "session",
    " because the agent needs a session or a prompt that the call lacks, or the session is not the agent's or has ended.",
  ],
  [
    "intent_contract",
    " because an intent contract of the call or its session does not admit the action or no longer holds, or the agent needs one and none covers it.",
  ],
  ["credential", " because the credential or token of the call has ended, or is not good for this action."],
  ["mcp_tool_policy", " because a policy for the tools of an MCP server refuses the tool."],
  ["unknown_tool", " because the tool is not registered, and the workspace refuses unknown tools."],
  ["mcp_definition", " because the MCP server does not list the tool, or its definition is not in force."],
  ["approved", " because a person had approved this very action, and the approval was still good."],
]);

function decided(body: unknown): Sentence {
  const [word, path] = [textAt(body, "decision"), textAt(body, "decision_path")];
  const policy = textAt(body, "policy_name");
  const start = `It was ${PAST.get(word) ?? word}`;
  if (path === "policy") return [`${start} by a rule of the mandate `, { quoted: policy, names: mandateOf(body) }, "."];
  if (path === "default") return [`${start}: no mandate matched, and the workspace ${word}s by default.`];
  return [`${start}${PATHS.get(path) ?? "."}`];
}

/** Says from when an action that limits alone refused would pass. */
function retry(body: unknown): readonly Sentence[] {
  if (textAt(body, "decision") === "allow") return [];
  const reasons = listAt(body, "reasons").map((reason) => {
    const resetsAt = textAt(reason, "resets_at");
    return { decision: textAt(reason, "decision"), ...(resetsAt !== "" && { resetsAtMs: Date.parse(resetsAt) }) };
  });
  const atMs = retryAfterMs(reasons);
  if (atMs === undefined || Number.isNaN(atMs)) return [];
  const time = new Date(atMs).toISOString();
  const codes = listAt(body, "reasons").map((reason) => textAt(reason, "code"));
  const what = codes.includes("BUDGET_EXCEEDED") ? "the same action" : "one more action";
  return [[`Limits alone stood against it: ${what} fits from ${time} if nothing else happens.`]];
}

/** Lists the budgets that a decision read, by mandate and rule. */
const budgetsIn = (body: unknown): readonly JsonValue[] =>
  listAt(body, "authorisation.collective_limits").filter((limit) => valueAt(limit, "budget") !== undefined);

/** Says of each budget that an action would exceed, and that refused it, by how much. */
function refusedByBudgets(body: unknown): readonly Sentence[] {
  if (textAt(body, "decision") === "allow") return [];
  return budgetsIn(body).flatMap((limit): Sentence[] => {
    const [total = 0, most = 0] = [numberAt(limit, "budget.total"), numberAt(limit, "budget.limit")];
    const isReason = listAt(body, "reasons").some(
      (reason) =>
        textAt(reason, "code") === "BUDGET_EXCEEDED" &&
        textAt(reason, "mandate_id") === textAt(limit, "mandate_id") &&
        textAt(reason, "rule") === textAt(limit, "rule"),
    );
    if (!isReason || total <= most) return [];
    const amount = amountText(total, textAt(limit, "budget.currency"));
    return [[...budgetPart(limit), ` would come to ${amount} with it, which is more.`]];
  });
}

/** Says what an allowed action reserved, and how the budgets stand with it. */
function reservedIn(body: unknown): readonly Sentence[] {
  const reserved = listAt(body, "reserved").filter((each) => textAt(each, "unit") === "");
  if (reserved.length === 0) return [];
  const amounts = reserved.map((each) =>
    amountText((numberAt(each, "millionths") ?? 0) / 1_000_000, textAt(each, "currency")),
  );
  const where = reserved.length === 1 ? "a budget" : `${reserved.length} budgets`;
  const told = [...new Set(amounts)].join(" and ");
  return [[`It reserved ${told} in ${where} until its outcome is known.`], ...budgetsIn(body).map(stands)];
}

function stands(limit: JsonValue): Sentence {
  const currency = textAt(limit, "budget.currency");
  const amount = (member: string): string => amountText(numberAt(limit, `budget.${member}`) ?? 0, currency);
  const [total = 0, most = 0] = [numberAt(limit, "budget.total"), numberAt(limit, "budget.limit")];
  const rest = total > most ? `is exceeded with ${amount("total")}` : `has ${amount("remaining")} left`;
  return [...budgetPart(limit), ` ${rest}: ${amount("reserved")} are reserved and ${amount("captured")} paid.`];
}

/** Names a budget: `The budget of 100 EUR in 86400 s for agent agt_1`. */
function budgetPart(limit: JsonValue): Sentence {
  const most = amountText(numberAt(limit, "budget.limit") ?? 0, textAt(limit, "budget.currency"));
  const [scope, group] = [textAt(limit, "scope"), textAt(limit, "group")];
  const whose: Part = scope === "agent" ? agentPart(group) : { quoted: group };
  return [`The budget of ${most} in ${numberAt(limit, "window") ?? 0} s for ${scope} `, whose];
}

/** Writes an amount with two places, or as many as it has: `12 EUR`, `12.50 EUR`. */
function amountText(amount: number, currency = ""): string {
  const [, places = ""] = String(amount).split(".");
  const text = places.length === 1 ? `${amount}0` : String(amount);
  return currency === "" ? text : `${text} ${currency}`;
}

/** Returns the mandate of the most decisive reason. */
function mandateOf(body: unknown): Named | undefined {
  const id = textAt(listAt(body, "reasons")[0], "mandate_id");
  return id === "" ? undefined : { kind: "mandate", id };
}

/** Tells of the lists that rules looked into, whether they fired or not. */
function lists(body: unknown): readonly Sentence[] {
  return listAt(body, "lists").map((list): Sentence => {
    const [name, digest] = [textAt(list, "name"), textAt(list, "digest")];
    const matched = listAt(list, "matched").filter((value) => typeof value === "string");
    const named: Part = { quoted: name, names: { kind: "list", id: name } };
    if (digest === "") return ["Its rules looked for the list ", named, ", which did not exist."];
    const start: Sentence = ["Its rules looked into the list ", named, " with the digest ", { quoted: digest }];
    if (matched.length === 0) return [...start, ", and found nothing of the action in it."];
    const values = matched.flatMap((quoted, index): Part[] => (index === 0 ? [{ quoted }] : [", ", { quoted }]));
    return [...start, ", in which the action matched ", ...values, "."];
  });
}

function approval(body: unknown): readonly Sentence[] {
  const [made, used] = [textAt(body, "escalation_id"), textAt(body, "used_escalation_id")];
  const [presented, edit] = [textAt(body, "presented_escalation_id"), textAt(body, "edit_of")];
  const expiry = textAt(body, "escalation_expires_at");
  const sentences: Sentence[] = [];
  if (made !== "") {
    const end = expiry === "" ? "." : `, until ${expiry}.`;
    sentences.push(["It waits for a person in the escalation ", escalationPart(made), end], ...demanded(body));
  }
  if (used !== "") sentences.push(["It used up the approval of ", escalationPart(used), "."]);
  if (presented !== "" && presented !== used) {
    sentences.push(["The caller presented ", escalationPart(presented), ", which did not change the decision."]);
  }
  if (edit !== "") sentences.push(["A person put these arguments in place of those of ", escalationPart(edit), "."]);
  return sentences;
}

function followed(body: unknown): readonly Sentence[] {
  const [claim, due] = [textAt(body, "claim_id"), textAt(body, "outcome_due_at")];
  const sentences: Sentence[] = [];
  if (claim !== "") sentences.push(["The caller claimed it as ", { quoted: claim }, ": nobody else may run it."]);
  if (due !== "") sentences.push([`Its outcome is unknown from ${due} on, unless somebody reports it before.`]);
  return sentences;
}

function trust(body: unknown): Sentence {
  const [before, after] = [numberAt(body, "trust.before"), numberAt(body, "trust.after")];
  if (valueAt(body, "trust_kept") === true) return [`The agent's trust stays at ${before}, whatever is decided here.`];
  if (before === after) return [`The agent's trust stayed at ${before}.`];
  return [`The agent's trust went from ${before} to ${after}.`];
}

function capped(body: unknown): readonly Sentence[] {
  const cap = numberAt(body, "trust.capped");
  return cap === undefined ? [] : [[`The token of the call caps trust: it was decided with ${cap}.`]];
}

function ended(body: unknown): readonly Sentence[] {
  const replay = textAt(body, "replay_of");
  const sentences: Sentence[] = [];
  if (replay !== "") {
    const first: Part = { quoted: replay, names: { kind: "decision", id: replay } };
    sentences.push(["It refuses a repeat of ", first, ", because something had ended since."]);
  }
  if (valueAt(body, "key_ended") === true) {
    sentences.push(["The key of the call had ended: this counts in no limit."]);
  }
  return sentences;
}

/** One sealed reason. Members that were left out are empty. */
export interface SealedReason {
  readonly code: string;
  readonly message: string;
  readonly mandateId: string;
  readonly mandateName: string;
  readonly rule: string;
  readonly argument: string;
  readonly wouldPass: string;
}

/** Reads the reasons of a sealed decision or of an observing mandate in it, most decisive first. */
export function reasonsIn(value: unknown): readonly SealedReason[] {
  return listAt(value, "reasons").map((reason) => ({
    code: textAt(reason, "code"),
    message: textAt(reason, "message"),
    mandateId: textAt(reason, "mandate_id"),
    mandateName: textAt(reason, "mandate_name"),
    rule: textAt(reason, "rule"),
    argument: textAt(reason, "argument"),
    wouldPass: textAt(reason, "would_pass"),
  }));
}
