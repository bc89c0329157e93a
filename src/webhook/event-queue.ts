import type { Pool } from "pg";
import { readWebhookEvents } from "../store/sql/read-webhook-events.ts";
import type { StoredWebhook } from "../store/sql/webhook-columns.ts";
import { entryFilterFrom, eventFromBody, type WebhookEvent } from "./event.ts";
import type { EventBatch } from "./event-batch.ts";

/** The events of a webhook, from its cursor on. */
export interface EventQueue {
  /** The revision of the webhook that the queue is of. */
  readonly revision: number;
  /** Everything before this index was delivered or is no event of the webhook. */
  readonly cursor: number;
  /** Begins again at the cursor of the webhook as it was changed. */
  adopt(webhook: StoredWebhook): void;
  /** The event that is next, read from the log if none was read ahead; undefined at the end of the log. */
  next(): Promise<WebhookEvent | undefined>;
  /** Whether an event that `next` gave is next still; not after `adopt`. */
  isNext(event: WebhookEvent): boolean;
  /** An event was delivered. */
  taken(event: WebhookEvent): void;
  /** Moves the cursor over a stretch that follows it directly and holds no event. False: the log has to be read. */
  skip(batch: EventBatch): boolean;
  /** Whether a stretch holds an event of the webhook. */
  wants(batch: EventBatch): boolean;
}

/** Events that are read ahead: few, since each comes with its entry's body. */
const PAGE = 20;

interface EventRow {
  readonly size: number;
  readonly end: number;
  readonly seq: number | null;
  readonly body: string | null;
}

interface EventPage {
  readonly events: readonly WebhookEvent[];
  /** Index up to which the log was looked through. */
  readonly end: number;
  /** Whether that is the end of the log. */
  readonly isLast: boolean;
}

async function readPage(pool: Pool, workspaceId: string, from: number, names: ReadonlySet<string>): Promise<EventPage> {
  const { decisions, marks } = entryFilterFrom(names);
  const values = [workspaceId, from, decisions, marks, PAGE];
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

/** Creates the queue of a webhook. */
export function createEventQueue(pool: Pool, webhook: StoredWebhook): EventQueue {
  const { workspaceId } = webhook;
  let names: ReadonlySet<string>;
  let revision: number;
  // INVARIANT: `ahead` holds every event of the webhook before `end` that was not delivered.
  let ahead: WebhookEvent[];
  let end: number;

  const adopt = (changed: StoredWebhook): void => {
    names = new Set(changed.events);
    revision = changed.revision;
    ahead = [];
    end = changed.nextSeq;
  };
  adopt(webhook);

  const wants = (batch: EventBatch): boolean => {
    for (const name of batch.names) if (names.has(name)) return true;
    return false;
  };

  return {
    get revision() {
      return revision;
    },
    get cursor() {
      return ahead[0]?.seq ?? end;
    },
    adopt,
    wants,
    async next() {
      while (ahead.length === 0) {
        const before = revision;
        const page = await readPage(pool, workspaceId, end, names);
        if (revision !== before) continue;
        ahead = [...page.events];
        end = page.end;
        if (page.isLast) break;
      }
      return ahead[0];
    },
    isNext: (event) => ahead[0] === event,
    taken(event) {
      if (ahead[0] === event) ahead.shift();
    },
    skip(batch) {
      if (ahead.length > 0 || batch.first > end || wants(batch)) return false;
      end = Math.max(end, batch.end);
      return true;
    },
  };
}
