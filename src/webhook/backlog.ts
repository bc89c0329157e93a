import type { Pool } from "pg";
import { outcomeNumber } from "../log/follow-up.ts";
import { DECISION_NUMBERS } from "../state/types.ts";
import { countWebhookBacklogs } from "../store/sql/deliver-webhook.ts";
import { EVENT_BY_CHANGE, EVENT_BY_DECISION, EVENT_OF_OVERDRAFT, EVENT_OF_UNKNOWN } from "./event-queue.ts";

/** Events that wait to be delivered to a webhook. */
export interface Backlog {
  /** At most `MAX_BACKLOG`. */
  readonly count: number;
  /** True if more than `count` may wait. */
  readonly isPartial: boolean;
}

/** Maximum number that is counted. */
const MAX_BACKLOG = 1_000;
/** Entries after a webhook's cursor in which its events are counted. */
const MAX_SPAN = 50_000;

/** Events by the decision of an entry, and by the end of the text of a change in this workspace. */
function eventColumns(workspaceId: string) {
  const decisions = [
    ...(["block", "escalate"] as const).map((each) => [EVENT_BY_DECISION[each], DECISION_NUMBERS[each]] as const),
    [EVENT_OF_UNKNOWN, outcomeNumber("unknown")] as const,
  ];
  const endings = [...EVENT_BY_CHANGE].map(
    ([type, event]) => [event, `"type":"${type}","workspace_id":${JSON.stringify(workspaceId)}}`] as const,
  );
  return [
    decisions.map(([event]) => event),
    decisions.map(([, decision]) => decision),
    endings.map(([event]) => event),
    endings.map(([, ending]) => ending),
    EVENT_OF_OVERDRAFT,
  ];
}

/** Counts the events that wait to be delivered, by webhook. */
export async function readBacklogs(
  pool: Pool,
  workspaceId: string,
  webhookIds: readonly string[],
): Promise<ReadonlyMap<string, Backlog>> {
  const values = [
    workspaceId,
    webhookIds,
    MAX_SPAN,
    MAX_BACKLOG + 1,
    DECISION_NUMBERS.escalate,
    ...eventColumns(workspaceId),
  ];
  type Row = { readonly webhookId: string; readonly count: number; readonly goesOn: boolean };
  const { rows } = await pool.query<Row>({ ...countWebhookBacklogs, values });
  return new Map(
    rows.map(({ webhookId, count, goesOn }) => [
      webhookId,
      { count: Math.min(count, MAX_BACKLOG), isPartial: goesOn || count > MAX_BACKLOG },
    ]),
  );
}
