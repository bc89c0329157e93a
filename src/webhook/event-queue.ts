import type { Pool } from "pg";
import type { LedgerEvent } from "../log/events.ts";
import { isOverdrawn, outcomeNumber } from "../log/follow-up.ts";
import { type DecisionBody, exceededBudgets, restoredBody } from "../log/receipts.ts";
import type { ControlChange } from "../state/control-changes.ts";
import type { SealedClaim, SealedOutcome } from "../state/outcomes.ts";
import { DECISION_NUMBERS } from "../state/types.ts";
import type { StoredWebhook } from "../store/sql/change-webhook.ts";
import { readWebhookEvents } from "../store/sql/deliver-webhook.ts";
import { type TracePlace, traceContextFrom } from "../tracing/trace-context.ts";
import type { JsonObject } from "../tree/canonical.ts";

/** Names of all events. */
export type EventName =
  | "agent.revoked"
  | "escalation.created"
  | "escalation.resolved"
  | "escalation.reminder"
  | "decision.blocked"
  | "tool.changed"
  | "definition.changed"
  | "outcome.unknown"
  | "budget.overdrawn";

/** Data of an event. It never contains free text that people or agents wrote about an action. */
export type EventData = JsonObject;

/** A log entry that is an event for webhooks. */
export interface WebhookEvent {
  readonly name: EventName;
  /** Log index of the entry. */
  readonly seq: number;
  /** Time at which the entry was sealed, RFC 3339 in UTC. */
  readonly at: string;
  readonly data: EventData;
  /** Place in the trace of a decision; undefined for one without, and for changes. */
  readonly trace: TracePlace | undefined;
}

/** A span of the log, and the events in it. */
interface LogSpan {
  /** Log index of its first entry. */
  readonly first: number;
  /** Log index after its last entry. */
  readonly end: number;
  readonly names: ReadonlySet<EventName>;
}

/** The sealed entry of a change. */
type ChangeBody = ControlChange & {
  readonly workspace_id: string;
  readonly seq: number;
  readonly at: string;
  /** The key that made the change. */
  readonly by: string;
};

/** Events by the decision that is one. */
export const EVENT_BY_DECISION: Readonly<Record<DecisionBody["decision"], EventName | undefined>> = {
  allow: undefined,
  block: "decision.blocked",
  escalate: "escalation.created",
};

/** True for a request that joined a pending escalation, which is not an event. */
const joins = ({ escalation_id, escalation_expires_at }: DecisionBody): boolean =>
  escalation_id !== undefined && escalation_expires_at === undefined;

/** Events by the type of the change that is one. */
export const EVENT_BY_CHANGE: ReadonlyMap<ControlChange["type"], EventName> = new Map([
  ["agent_revoked", "agent.revoked"],
  ["escalation_resolved", "escalation.resolved"],
  ["escalation_reminded", "escalation.reminder"],
  ["tool_registered", "tool.changed"],
  ["tool_described", "tool.changed"],
  ["tool_provenance_declared", "tool.changed"],
  ["mcp_tool_changed", "tool.changed"],
  ["mcp_definition_changed", "definition.changed"],
]);

/** The event of an outcome that nobody reported in time. */
export const EVENT_OF_UNKNOWN: EventName = "outcome.unknown";

/** The event of an outcome that captures more than was reserved, and of an action that an approval let exceed a budget. */
export const EVENT_OF_OVERDRAFT: EventName = "budget.overdrawn";

/** Returns the event of an entry about a decision; undefined if it is none. */
function eventOfFollowUp(sealed: SealedClaim | SealedOutcome): EventName | undefined {
  if (isOverdrawn(sealed)) return EVENT_OF_OVERDRAFT;
  return sealed.type === "outcome" && sealed.status === "unknown" ? EVENT_OF_UNKNOWN : undefined;
}

function eventOfEntry(entry: LedgerEvent): EventName | undefined {
  if (entry.kind === "follow_up") return eventOfFollowUp(entry.sealed);
  if (entry.kind === "change") return EVENT_BY_CHANGE.get(entry.change.type);
  if (entry.isOverdrawn) return EVENT_OF_OVERDRAFT;
  return entry.ask !== undefined && entry.ask.created === undefined ? undefined : EVENT_BY_DECISION[entry.decision];
}

/** Creates the span of consecutive entries. `entries` MUST NOT be empty. */
export function logSpanFrom(entries: readonly LedgerEvent[]): LogSpan {
  const names = new Set<EventName>();
  for (const entry of entries) {
    const name = eventOfEntry(entry);
    if (name !== undefined) names.add(name);
  }
  return { first: entries[0]?.seq ?? 0, end: (entries.at(-1)?.seq ?? -1) + 1, names };
}

/** Returns the data of a decision, without metadata, arguments and content, and with codes as reasons. */
function dataFromDecision(body: DecisionBody): EventData {
  const isEscalation = body.decision === "escalate";
  return {
    ...(isEscalation ? { escalation_id: body.escalation_id ?? null, status: "pending" } : {}),
    decision_id: body.decision_id,
    decision: body.decision,
    decision_path: body.decision_path,
    agent_id: body.action.agent_id,
    action_type: body.action.action_type,
    tool: body.action.tool ?? null,
    policy_name: body.policy_name ?? null,
    reason_codes: [...new Set(body.reasons.map(({ code }) => code))],
  };
}

/** Returns the place in the trace of a decision, as it was sealed. */
const traceOf = ({ trace_id, span_id, trace_flags }: DecisionBody): TracePlace | undefined =>
  traceContextFrom(`00-${trace_id}-${span_id}-${trace_flags}`);

/** Returns the data of a change; empty for a change that is not an event. */
function dataFromChange(change: ChangeBody): EventData {
  switch (change.type) {
    case "agent_revoked": {
      const counts = Object.entries(change.ended).map(([kind, ids]) => [kind, ids.length] as const);
      const { agent_id, revocation_id, certificate_digest } = change;
      return { agent_id, revocation_id, revoked_by: change.by, counts: Object.fromEntries(counts), certificate_digest };
    }
    case "escalation_resolved": {
      const { escalation_id, agent_id, resolution, cause, edit, edited_from } = change;
      return {
        escalation_id,
        agent_id,
        status: resolution,
        resolved_by: cause ?? change.by,
        ...(edit === undefined ? {} : { edited: true, replaced_by: edit.replaced_by ?? null }),
        ...(edited_from === undefined ? {} : { edited_from }),
      };
    }
    case "escalation_reminded": {
      const { escalation_id, agent_id, groups } = change;
      return { escalation_id, agent_id, status: "pending", groups };
    }
    case "tool_registered":
    case "tool_described":
    case "tool_provenance_declared": {
      const { name, version, digest } = change.tool;
      return { name, version, digest, registered_by: change.by };
    }
    case "mcp_tool_changed": {
      const { server, name, version, digest } = change.mcp_tool;
      return { name: `${server}.${name}`, definition_version: version, digest, in_force: change.in_force };
    }
    case "mcp_definition_changed": {
      const { server, kind, name, version, digest } = change.mcp_definition;
      return { server, kind, name, definition_version: version, digest, in_force: change.in_force };
    }
    default:
      return {};
  }
}

/** Returns the data of a decision that an approval let exceed budgets: each with its limit and its total, this action included. */
function dataFromExceeding(body: DecisionBody): EventData {
  const { decision_id, action, at, used_escalation_id } = body;
  return {
    decision_id,
    agent_id: action.agent_id,
    action_type: action.action_type,
    decided_at: at,
    cause: "approval",
    escalation_id: used_escalation_id ?? null,
    budgets: exceededBudgets(body).map(({ mandate_id, rule, scope, group, budget }) => ({
      mandate_id,
      rule,
      scope,
      group,
      pot: budget?.pot ?? null,
      currency: budget?.currency ?? null,
      limit: budget?.limit ?? null,
      total: budget?.total ?? null,
    })),
  };
}

/** Returns the data of an event that an entry about a decision is. */
function dataFromFollowUp(sealed: SealedClaim | SealedOutcome): EventData {
  const { decision_id, agent_id, action_type, decided_at } = sealed;
  const data = { decision_id, agent_id, action_type, decided_at };
  if (sealed.type === "claim") return data;
  const { status, overdrawn } = sealed;
  if (overdrawn === undefined) return { ...data, status };
  return { ...data, status, cause: "capture", budgets: overdrawn.map((each) => ({ ...each })) };
}

/** Reads the event from an entry's body; undefined if it is not a wanted event. */
function eventFromBody(text: string, wanted: ReadonlySet<string>): WebhookEvent | undefined {
  const sealed = JSON.parse(text) as DecisionBody | ChangeBody | SealedClaim | SealedOutcome;
  const body = sealed.type === "decision" ? restoredBody(sealed) : sealed;
  const event = nameAndData(body);
  if (event === undefined || !wanted.has(event.name)) return undefined;
  const { seq, at, workspace_id } = body;
  const data = { workspace_id, seq, ...event.data() };
  return { name: event.name, seq, at, data, trace: body.type === "decision" ? traceOf(body) : undefined };
}

/** An event with its data, which is read only if the event is wanted. */
interface NamedEvent {
  readonly name: EventName;
  readonly data: () => EventData;
}

function nameAndData(body: DecisionBody | ChangeBody | SealedClaim | SealedOutcome): NamedEvent | undefined {
  const named = (name: EventName | undefined, data: () => EventData) =>
    name === undefined ? undefined : { name, data };
  if (body.type === "claim" || body.type === "outcome")
    return named(eventOfFollowUp(body), () => dataFromFollowUp(body));
  if (body.type !== "decision") return named(EVENT_BY_CHANGE.get(body.type), () => dataFromChange(body));
  if (body.decision === "allow") return named(EVENT_OF_OVERDRAFT, () => dataFromExceeding(body));
  return joins(body) ? undefined : named(EVENT_BY_DECISION[body.decision], () => dataFromDecision(body));
}

/** Events on one page: few, since each comes with its entry's body. */
const PAGE = 20;

interface EventRow {
  readonly size: number;
  readonly end: number;
  readonly seq: number | null;
  readonly body: string | null;
}

interface EventPage {
  readonly events: readonly WebhookEvent[];
  /** Log index up to which the log was searched. */
  readonly end: number;
  /** True at the end of the log. */
  readonly isLast: boolean;
}

async function readPage(pool: Pool, workspaceId: string, from: number, names: ReadonlySet<string>): Promise<EventPage> {
  const decisions = (["block", "escalate"] as const).filter((decision) => names.has(EVENT_BY_DECISION[decision] ?? ""));
  const types = [...EVENT_BY_CHANGE].filter(([, name]) => names.has(name)).map(([type]) => `"type":"${type}"`);
  const numbers: number[] = decisions.map((decision) => DECISION_NUMBERS[decision]);
  if (names.has(EVENT_OF_UNKNOWN)) numbers.push(outcomeNumber("unknown"));
  const values = [workspaceId, from, numbers, types, PAGE, names.has(EVENT_OF_OVERDRAFT)];
  const { rows } = await pool.query<EventRow>({ ...readWebhookEvents, values });
  const found = rows.filter(({ seq }) => seq !== null);
  const isFull = found.length === PAGE;
  const { size = from, end = from } = rows[0] ?? {};
  const events = found.map(({ body }) => eventFromBody(body ?? "null", names));
  return {
    events: events.filter((event) => event !== undefined),
    end: isFull ? (found.at(-1)?.seq ?? from) + 1 : Math.max(from, end),
    isLast: !isFull && end >= size,
  };
}

/** Events of a webhook, read from the log from its cursor on. */
export class EventQueue {
  readonly #pool: Pool;
  readonly #workspaceId: string;
  #names: ReadonlySet<string> = new Set();
  #revision = 0;
  // INVARIANT: holds every undelivered event of the webhook before `#end`.
  #ahead: WebhookEvent[] = [];
  #end = 0;

  constructor(pool: Pool, webhook: StoredWebhook) {
    this.#pool = pool;
    this.#workspaceId = webhook.workspaceId;
    this.replaceConfig(webhook);
  }

  /** Revision of the webhook's configuration in use. */
  get revision(): number {
    return this.#revision;
  }

  /** Log index before which every event of the webhook is delivered. */
  get cursor(): number {
    return this.#ahead[0]?.seq ?? this.#end;
  }

  /** Applies a changed configuration, and restarts at its cursor. */
  replaceConfig({ events, revision, nextSeq }: StoredWebhook): void {
    this.#names = new Set(events);
    this.#revision = revision;
    this.#ahead = [];
    this.#end = nextSeq;
  }

  /** Returns the next event without removing it; undefined at the end of the log. */
  async next(): Promise<WebhookEvent | undefined> {
    while (this.#ahead.length === 0) {
      const revision = this.#revision;
      const page = await readPage(this.#pool, this.#workspaceId, this.#end, this.#names);
      if (revision !== this.#revision) continue;
      this.#ahead = [...page.events];
      this.#end = page.end;
      if (page.isLast) break;
    }
    return this.#ahead[0];
  }

  /** Tests whether an event from `next` is still the next one, which `replaceConfig` may have changed. */
  isNext(event: WebhookEvent): boolean {
    return this.#ahead[0] === event;
  }

  /** Removes a delivered event. */
  markDelivered(event: WebhookEvent): void {
    if (this.isNext(event)) this.#ahead.shift();
  }

  /** Moves the cursor over a span without events directly after it. Returns false if the log has to be read instead. */
  skip(span: LogSpan): boolean {
    if (this.#ahead.length > 0 || span.first > this.#end || this.hasEventsIn(span)) return false;
    this.#end = Math.max(this.#end, span.end);
    return true;
  }

  /** Tests whether a span has events of the webhook. */
  hasEventsIn({ names }: LogSpan): boolean {
    return [...names].some((name) => this.#names.has(name));
  }
}
