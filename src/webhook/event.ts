import type { LedgerEvent } from "../log/events.ts";
import type { DecisionBody } from "../log/receipts.ts";
import type { ControlChange } from "../state/control-changes.ts";
import { numberFromDecision } from "../state/stored-enums.ts";
import { dataFromChange, dataFromDecision, type EventData } from "./event-data.ts";

/** What a webhook can hear of. */
export type EventName =
  | "agent.revoked"
  | "escalation.created"
  | "escalation.resolved"
  | "decision.blocked"
  | "tool.changed";

/** An entry of the log that a webhook tells of. */
export interface WebhookEvent {
  readonly name: EventName;
  /** Index of the entry. */
  readonly seq: number;
  /** RFC 3339 UTC, when the entry was sealed. */
  readonly at: string;
  readonly data: EventData;
}

/** A change's entry as sealed. */
type ChangeBody = ControlChange & { readonly workspace_id: string; readonly seq: number; readonly at: string } & {
  readonly by: string;
};

const BY_DECISION: Readonly<Record<DecisionBody["decision"], EventName | undefined>> = {
  allow: undefined,
  block: "decision.blocked",
  escalate: "escalation.created",
};

const BY_CHANGE: ReadonlyMap<ControlChange["type"], EventName> = new Map([
  ["agent_revoked", "agent.revoked"],
  ["escalation_resolved", "escalation.resolved"],
  ["tool_registered", "tool.changed"],
]);

/** The event that an entry is; undefined for one that no webhook tells of. */
export function eventNameOf(event: LedgerEvent): EventName | undefined {
  return event.kind === "decision" ? BY_DECISION[event.decision] : BY_CHANGE.get(event.change.type);
}

/** What finds the entries of some events: numbers of decisions, and texts of which the body of a change has one. */
export function entryFilterFrom(names: ReadonlySet<string>): {
  readonly decisions: readonly number[];
  readonly marks: readonly string[];
} {
  const decisions = (["block", "escalate"] as const).filter((decision) => names.has(BY_DECISION[decision] ?? ""));
  const types = [...BY_CHANGE].filter(([, name]) => names.has(name)).map(([type]) => type);
  return { decisions: decisions.map(numberFromDecision), marks: types.map((type) => `"type":"${type}"`) };
}

/** The event of an entry's body; undefined when it is none of the wanted ones. */
export function eventFromBody(text: string, names: ReadonlySet<string>): WebhookEvent | undefined {
  const body = JSON.parse(text) as DecisionBody | ChangeBody;
  const name = body.type === "decision" ? BY_DECISION[body.decision] : BY_CHANGE.get(body.type);
  if (name === undefined || !names.has(name)) return undefined;
  const { seq, at, workspace_id } = body;
  const data = body.type === "decision" ? dataFromDecision(body) : dataFromChange(body);
  return { name, seq, at, data: { workspace_id, seq, ...data } };
}
