import { setTimeout as delay } from "node:timers/promises";
import { startServer, type TestServer } from "../support/server.ts";

/** Processes on one database, of which one is killed every now and then and started again. */
export interface KilledFleet {
  /** The processes at this time. */
  readonly servers: readonly TestServer[];
  readonly kills: number;
  /** Kills one after a pause. */
  killOneAfter(ms: number): Promise<void>;
}

/** Size and settings of a fleet. */
export interface KilledFleetOptions {
  readonly databaseUrl: string;
  readonly processes: number;
  readonly env: Readonly<Record<string, string>>;
}

/** Starts the processes, one after the other; they are gone after `cleanup`. */
export async function startKilledFleet(
  { databaseUrl, processes, env }: KilledFleetOptions,
  cleanup: AsyncDisposableStack,
): Promise<KilledFleet> {
  const servers: TestServer[] = [];
  let kills = 0;
  const start = (): Promise<TestServer> => startServer({ databaseUrl, env });
  cleanup.defer(async () => {
    await Promise.all(servers.map((server) => server.kill()));
  });
  while (servers.length < processes) servers.push(await start());
  return {
    servers,
    get kills() {
      return kills;
    },
    async killOneAfter(ms) {
      await delay(ms);
      const killed = Math.floor(Math.random() * servers.length);
      await servers[killed]?.kill();
      servers[killed] = await start();
      kills += 1;
    },
  };
}
