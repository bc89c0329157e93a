import { SKEWS_MS, skewEnvironment } from "../revocation/fleet.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { openWires, type Wires } from "../support/wires.ts";

/** One process of the service and the clients of it. */
export interface Member {
  readonly server: TestServer;
  readonly wires: Wires;
  /** Counts the lives of the process: another number after every kill. */
  readonly life: number;
  readonly isUp: boolean;
}

/** Processes with clocks that disagree, on one database and one Redis. */
export interface Fleet {
  readonly members: readonly Member[];
  readonly redis: TestRedis;
  /** Ends a process in the middle of whatever it does, and starts it again. */
  killAndRestart(index: number): Promise<void>;
}

const ADMIN_KEY = "the-admin-key-of-the-history";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Settings of a fleet. */
export interface FleetOptions {
  readonly databaseUrl: string;
  /** Workers that each process has. Default: it serves itself. */
  readonly workers?: number | undefined;
}

/** Starts the processes and a Redis; everything is gone after `cleanup`. */
export async function startHistoryFleet(
  { databaseUrl, workers = 1 }: FleetOptions,
  cleanup: AsyncDisposableStack,
): Promise<Fleet> {
  const redis = await startRedis();
  cleanup.defer(() => redis.close());
  const start = (skewMs: number): Promise<TestServer> => {
    const own = { ACP_ADMIN_KEY: ADMIN_KEY, ACP_LOG_LEVEL: "error", ACP_WORKERS: String(workers) };
    const env = { ...own, REDIS_URL: redis.url };
    return startServer({ databaseUrl, env: { ...env, ...skewEnvironment(skewMs) } });
  };
  const members: Mutable<Member>[] = [];
  for (const server of await Promise.all(SKEWS_MS.map(start))) {
    members.push({ server, wires: openWires(server), life: 0, isUp: true });
  }
  cleanup.defer(async () => {
    for (const { wires } of members) wires.close();
    await Promise.all(members.map(({ server }) => server.stop()));
  });
  return {
    members,
    redis,
    async killAndRestart(index) {
      const member = members[index] as Mutable<Member>;
      member.isUp = false;
      member.life += 1;
      await member.server.kill();
      member.wires.close();
      member.server = await start(SKEWS_MS[index] ?? 0);
      member.wires = openWires(member.server);
      member.isUp = true;
    },
  };
}
