import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { bareInserts, createBareTable } from "./insert.ts";
import type { Replies } from "./tools.ts";

/** Commits at a fixed rate. */
export interface PacedCommits {
  readonly databaseUrl: string;
  /** Commits a second, over all connections. */
  readonly rate: number;
  readonly connections: number;
}

/** Commits single rows of the service's log at a fixed rate for some milliseconds, on connections that begin evenly apart. */
export async function pacedCommits({ databaseUrl, rate, connections }: PacedCommits, ms: number): Promise<Replies> {
  const clients = Array.from({ length: connections }, () => new Client({ connectionString: databaseUrl }));
  await Promise.all(clients.map((client) => client.connect()));
  const [first] = clients;
  if (first === undefined) throw new Error("a load needs a connection");
  await createBareTable(first);
  const inserts = await Promise.all(clients.map((client, index) => bareInserts(client, 1, `paced ${index}`)));
  const took: number[] = [];
  const everyMs = (connections * 1_000) / rate;
  const startedAt = performance.now();
  await Promise.all(
    inserts.map(async (insertNext, index) => {
      for (let next = startedAt + (everyMs * index) / connections; next < startedAt + ms; next += everyMs) {
        const wait = next - performance.now();
        if (wait > 0) await delay(wait);
        const sentAt = performance.now();
        await insertNext();
        took.push(performance.now() - sentAt);
      }
    }),
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  await first.query("drop table bare_entry");
  await Promise.all(clients.map((client) => client.end()));
  return { perSecond: took.length / seconds, sorted: Float64Array.from(took).sort() };
}
