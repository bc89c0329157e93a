import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { cutConnection } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { WAKE_UP_CHANNEL, type WakeUp, wakeUpFrom } from "./events.ts";

/** Receives a wake-up, or `undefined` when some may have been lost, so that every log has to be checked. */
export type WakeUpListener = (wakeUp: WakeUp | undefined) => void;

/** Subscription to the wake-ups of other replicas. Losing a wake-up costs latency, never correctness. */
export interface WakeUps {
  /** Ends the connection. Cuts it if the server does not answer within a second. */
  close(): Promise<void>;
}

const RECONNECT_MS = 500;
/** Milliseconds in which the server answers the end of the connection. */
const END_MS = 1_000;

/** Subscribes to PostgreSQL's notifications on a dedicated connection, and reconnects when it is lost. */
export async function listenForWakeUps(url: string, log: StoreLog, listener: WakeUpListener): Promise<WakeUps> {
  let client: Client | undefined;
  let isClosed = false;

  const connect = async (): Promise<void> => {
    const next = new Client({ connectionString: url, application_name: "acp wake-ups", keepAlive: true });
    next.on("error", (error) => log.warn({ reason: error.message }, "lost the connection for wake-ups"));
    next.on("end", () => {
      // A connection that never opened also emits `end`. Its caller already retries, so starting a second retry loop here
      // would double them each time.
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
    // Notifications that were sent while there was no connection are lost.
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
      const last = client;
      if (last === undefined) return;
      const timer = setTimeout(() => cutConnection(last), END_MS);
      await last.end();
      clearTimeout(timer);
    },
  };
}
