import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Escalation, EscalationStatus } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { shownText } from "../../kit/shown.tsx";
import { amountOf, leadingArgument, valueText } from "./fired-argument.ts";

/** Order, filters and groups of the queue, as the address of the screen holds them. */
export interface QueueView {
  readonly order: OrderWord;
  /** Id of the agent. */
  readonly agent: string;
  /** Id of a mandate that a reason names, or `none` for the default decision. */
  readonly mandate: string;
  /** Action type or tool. */
  readonly action: string;
  /** `true` for those that wait for an approval of the signed-in person alone. */
  readonly mine: string;
  /** Text that an escalation has. */
  readonly q: string;
  readonly group: GroupWord;
}

/** Word of an order: the most urgent, the largest amount, the lowest trust or the oldest first. */
export type OrderWord = "time" | "amount" | "trust" | "age";
/** Word of what the rows are grouped by. */
export type GroupWord = "" | "mandate" | "agent";

/** Names of the parameters that narrow the queue. */
export const FILTERS = ["mine", "agent", "mandate", "action", "q"] as const;
/** Filter value of escalations that no mandate names. */
export const NO_MANDATE = "none";

/** Characters of an escalation that are searched. */
const MAX_SEARCHED = 20_000;

/** Reads the view from an address. */
export function viewFrom(parameters: URLSearchParams): QueueView {
  const text = (name: string): string => parameters.get(name)?.trim() ?? "";
  const [order, group] = [text("order"), text("group")];
  return {
    order: order === "amount" || order === "trust" || order === "age" ? order : "time",
    agent: text("agent"),
    mandate: text("mandate"),
    action: text("action"),
    mine: text("mine") === "true" ? "true" : "",
    q: text("q"),
    group: group === "mandate" || group === "agent" ? group : "",
  };
}

/** A mandate or an agent, by which escalations are grouped and filtered. */
export interface Named {
  readonly id: string;
  /** Text from elsewhere. */
  readonly name: string;
}

/** Returns the mandate that escalated. */
export function mandateOf({ policyName, reasons }: Escalation): Named {
  const named = reasons.filter(({ mandateId }) => mandateId !== undefined);
  const reason = named.find(({ mandateName }) => mandateName === policyName) ?? named[0];
  if (reason?.mandateId === undefined) return { id: NO_MANDATE, name: policyName ?? "no mandate" };
  return { id: reason.mandateId, name: reason.mandateName ?? reason.mandateId };
}

/** Returns the group of an escalation; undefined without groups. */
export function groupOf(group: GroupWord, escalation: Escalation): Named | undefined {
  if (group === "mandate") return mandateOf(escalation);
  return group === "agent" ? { id: escalation.agentId, name: escalation.agentName } : undefined;
}

const searched = new WeakMap<Escalation, string>();

/** Writes the text in which an escalation is searched. */
function searchText(escalation: Escalation): string {
  const kept = searched.get(escalation);
  if (kept !== undefined) return kept;
  const { escalationId, agentName, actionType, tool = "", actionContent, policyName = "", reasons } = escalation;
  const leading = leadingArgument(escalation);
  const parts = [
    escalationId,
    agentName,
    actionType,
    tool,
    policyName,
    ...reasons.map(({ mandateName = "", message }) => `${mandateName} ${message}`),
    leading === undefined ? "" : valueText(leading),
    actionContent,
    JSON.stringify(escalation.arguments ?? {}).slice(0, MAX_SEARCHED),
  ];
  const text = parts.join("\n").slice(0, MAX_SEARCHED).toLowerCase();
  searched.set(escalation, text);
  return text;
}

/** Tests whether an escalation passes the filters. One that is answered waits for nobody. */
export const passes = (view: QueueView, escalation: Escalation): boolean =>
  (view.mine === "" || escalation.status !== EscalationStatus.PENDING || escalation.awaitsCaller === true) &&
  passesOthers(view, escalation);

/** Tests whether an escalation passes the filters beside `mine`. Every word of the search has to be in it. */
export function passesOthers(view: QueueView, escalation: Escalation): boolean {
  const { agentId, actionType, tool, reasons } = escalation;
  if (view.agent !== "" && agentId !== view.agent) return false;
  if (view.action !== "" && actionType !== view.action && tool !== view.action) return false;
  if (view.mandate !== "") {
    const isNamed = reasons.some(({ mandateId }) => mandateId === view.mandate);
    if (!isNamed && mandateOf(escalation).id !== view.mandate) return false;
  }
  if (view.q === "") return true;
  const text = searchText(escalation);
  return view.q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

const msOf = (at: Escalation["createdAt"]): number => (at === undefined ? 0 : timestampMs(at));
const agesOf = (escalation: Escalation): number => msOf(escalation.createdAt);
const endOf = ({ expiresAt }: Escalation): number => (expiresAt === undefined ? Infinity : timestampMs(expiresAt));

const amounts = new WeakMap<Escalation, number>();

function amountKey(escalation: Escalation): number {
  const kept = amounts.get(escalation);
  if (kept !== undefined) return kept;
  const amount = amountOf(escalation) ?? Number.NEGATIVE_INFINITY;
  amounts.set(escalation, amount);
  return amount;
}

type Compare = (a: Escalation, b: Escalation) => number;

/** Compares two numbers, of which both may be infinite. */
const sign = (a: number, b: number): number => (a === b ? 0 : a < b ? -1 : 1);
const byAge: Compare = (a, b) => sign(agesOf(a), agesOf(b));
const byEnd: Compare = (a, b) => sign(endOf(a), endOf(b)) || byAge(a, b);

/** Comparisons by the words of the orders. Equal escalations stand by their time left, then by their age. */
export const COMPARISONS: Readonly<Record<OrderWord, Compare>> = {
  time: byEnd,
  amount: (a, b) => sign(amountKey(b), amountKey(a)) || byEnd(a, b),
  trust: (a, b) => sign(a.trustScore, b.trustScore) || byEnd(a, b),
  age: (a, b) => byAge(a, b) || byEnd(a, b),
};

/** Maximum number of values that a filter offers. */
const MAX_OPTIONS = 200;
const MAX_NAME = 60;

/** Lists the values that escalations have, by name, for a filter. The chosen one is always among them. */
export function optionsOf(all: string, named: readonly Named[], chosen: string) {
  const names = new Map(named.map(({ id, name }) => [id, name]));
  if (chosen !== "" && !names.has(chosen)) names.set(chosen, chosen);
  const sorted = [...names].sort(([, a], [, b]) => (a < b ? -1 : a > b ? 1 : 0));
  const first = sorted.slice(0, MAX_OPTIONS);
  const own = sorted.find(([word]) => word === chosen);
  if (own !== undefined && !first.includes(own)) first.push(own);
  const options = first.map(([word, name]) => ({ word, title: shownText(name, MAX_NAME) }));
  return [{ word: "", title: all }, ...options];
}
