import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import type { StoreLog } from "../store/migrate.ts";
import { WAKE_UP_CHANNEL } from "./changes.ts";
import type { WakeUp } from "./events.ts";

/** Hears that a workspace's log reaches a size; `undefined` when wake-ups may have been lost and all should look. */
export type WakeUpListener = (wakeUp: WakeUp | undefined) => void;

/** The wake-ups of other replicas. A lost one costs latency, never correctness. */
export interface WakeUps {
  close(): Promise<void>;
}

const RECONNECT_MS = 500;

/** Reads the payload of a wake-up; undefined when it is none. */
export function wakeUpFrom(payload: string | undefined): WakeUp | undefined {
  const [workspaceId, seq, kind] = (payload ?? "").split(" ");
  if (workspaceId === undefined || seq === undefined) return undefined;
  return { workspaceId, seq: Number(seq), isChange: kind !== "decisions" };
}

/** Listens on PostgreSQL's notifications with a connection of its own, and connects again whenever it is lost. */
export async function listenForWakeUps(url: string, log: StoreLog, listener: WakeUpListener): Promise<WakeUps> {
  let client: Client | undefined;
  let isClosed = false;

  const connect = async (): Promise<void> => {
    const next = new Client({ connectionString: url, application_name: "acp wake-ups", keepAlive: true });
    next.on("error", (error) => log.warn({ reason: error.message }, "lost the connection for wake-ups"));
    next.on("end", () => {
      // One that never came about ends as well; who tried it tries again, and two who try would become four.
      if (client !== next) return;
      client = undefined;
      void reconnect();
    });
    next.on("notification", ({ payload }) => listener(wakeUpFrom(payload)));
    try {
      await next.connect();
      await next.query(`listen ${WAKE_UP_CHANNEL}`);
    } catch (error) {
      next.end().catch(() => undefined);
      throw error;
    }
    if (isClosed) return next.end();
    client = next;
    // Whatever was sent while nobody listened is gone.
    listener(undefined);
  };

  const reconnect = async (): Promise<void> => {
    while (!isClosed && client === undefined) {
      await delay(RECONNECT_MS, undefined, { ref: false });
      if (isClosed) return;
      await connect().catch((error: Error) => log.warn({ reason: error.message }, "cannot listen for wake-ups"));
    }
  };

  await connect();
  return {
    async close() {
      isClosed = true;
      await client?.end();
    },
  };
}
