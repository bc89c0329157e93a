import { readFile, writeFile } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type Cluster, OWNER, openCluster } from "./embedded-postgres-cluster.ts";
import {
  DEFAULT_MAX_CONNECTIONS,
  findPort,
  isServer,
  type Launched,
  LISTEN_ADDRESS,
  launchServer,
  readPostmaster,
  removeStalePidFile,
  stopServer,
} from "./embedded-postgres-server.ts";
import type { StoreLog } from "./migrate.ts";

/** Milliseconds until a start is given up: recovery after a crash replays at most one checkpoint interval. */
export const DEFAULT_START_MS = 60_000;
const POLL_MS = 50;
const DATABASE = "acp";
/** Key of the advisory lock that every process using the server holds shared while it does. */
const USERS_LOCK = 7_080_001;
/** Ends of a launched server after which another attempt may succeed: somebody else was first. */
const TRANSIENT = /lock file|could not create any TCP\/IP sockets|could not bind|shared memory block/;

/** How an embedded PostgreSQL is started. */
export interface EmbeddedPostgresOptions {
  /** Made when it does not exist. MUST be on a local disk. */
  readonly dataDir: string;
  /** Default: the port of the last start if it is free, else any free port. A running server keeps its own. */
  readonly port?: number;
  readonly log: StoreLog;
  /** Default true. False gives up durability for speed; only for data that may be lost with the machine. */
  readonly durable?: boolean;
  /** Connections that a launched server accepts; one that runs keeps its own. Default `DEFAULT_MAX_CONNECTIONS`. */
  readonly maxConnections?: number;
  /** Where root keeps what PostgreSQL's account cannot reach in `dataDir`. Default `/var/lib/agent-control-plane`. */
  readonly rootHome?: string;
}

/** A running PostgreSQL that this process uses. */
export interface EmbeddedPostgres {
  /** Address of the product's database, with password. MUST NOT be logged. */
  readonly url: string;
  /** Leaves the server; the last process that leaves stops it. MAY be called again. */
  stop(): Promise<void>;
}

/** A process's membership among the users of a server. */
interface Seat {
  readonly client: Client;
  readonly socket: Socket;
  readonly port: number;
}

interface Attempt {
  readonly cluster: Cluster;
  readonly options: EmbeddedPostgresOptions;
  launched?: Launched;
  cause?: unknown;
}

function clientFor(cluster: Cluster, port: number, socket: Socket): Client {
  const client = new Client({
    host: LISTEN_ADDRESS,
    port,
    user: OWNER,
    password: cluster.password,
    database: "postgres",
    application_name: "acp seat",
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    stream: () => socket,
  });
  // A lost connection is seen by its `end`; without this listener it would end the process.
  client.on("error", () => undefined);
  return client;
}

async function takeSeat(attempt: Attempt, port: number): Promise<Seat | undefined> {
  const socket = new Socket();
  const client = clientFor(attempt.cluster, port, socket);
  try {
    await client.connect();
    // Waits while the last user is stopping the server, and then fails with it.
    await client.query("select pg_advisory_lock_shared($1)", [USERS_LOCK]);
    return { client, socket, port };
  } catch (error) {
    attempt.cause = error;
    await client.end().catch(() => undefined);
    return undefined;
  }
}

const portFile = (cluster: Cluster): string => join(cluster.directory, "port");

async function choosePort({ cluster, options }: Attempt): Promise<number> {
  const remembered = Number(await readFile(portFile(cluster), "utf8").catch(() => "0"));
  return findPort(options.port || remembered || 0);
}

async function step(attempt: Attempt): Promise<Seat | undefined> {
  const { cluster, options } = attempt;
  const postmaster = await readPostmaster(cluster);
  const seat = postmaster?.isReady ? await takeSeat(attempt, postmaster.port) : undefined;
  const failure = attempt.launched?.failure();
  if (seat || (postmaster && (await isServer(cluster, postmaster.pid)))) return seat;
  if (failure !== undefined && !TRANSIENT.test(failure)) throw startError(cluster, failure, attempt.cause);
  if (attempt.launched && failure === undefined) return undefined;
  await removeStalePidFile(cluster);
  const { durable = true, maxConnections = DEFAULT_MAX_CONNECTIONS } = options;
  attempt.launched = await launchServer(cluster, { port: await choosePort(attempt), durable, maxConnections });
  return undefined;
}

function startError(cluster: Cluster, why: string, cause: unknown): ControlPlaneError {
  const metadata = { directory: cluster.directory };
  const message = `the embedded postgresql in \`${cluster.directory}\` does not start: ${why}`;
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, metadata, { cause });
}

/** Uses the running server of the cluster or launches one. */
async function enter(attempt: Attempt): Promise<Seat> {
  const deadline = Date.now() + DEFAULT_START_MS;
  while (Date.now() < deadline) {
    const seat = await step(attempt);
    if (seat) return seat;
    await delay(POLL_MS);
  }
  const why = attempt.cause instanceof Error ? attempt.cause.message : `not within ${DEFAULT_START_MS} ms`;
  throw startError(attempt.cluster, why, attempt.cause);
}

/** Makes the product's database on first use; a process that made it meanwhile is no fault. */
async function ensureDatabase({ client }: Seat): Promise<void> {
  const found = await client.query("select from pg_database where datname = $1", [DATABASE]);
  if (found.rowCount) return;
  await client.query(`create database ${DATABASE}`).catch((error: { code?: string }) => {
    if (error.code !== "42P04" && error.code !== "23505") throw error;
  });
}

/** Gives the seat back; stops the server if no other process has one. */
async function leave(cluster: Cluster, { client, socket }: Seat): Promise<void> {
  socket.ref();
  // INVARIANT: whoever leaves drops its own share first, so of two that leave at once one gets the whole lock.
  await client.query("select pg_advisory_unlock_shared($1)", [USERS_LOCK]);
  const { rows } = await client.query("select pg_try_advisory_lock($1) as is_last", [USERS_LOCK]);
  if (rows[0]?.is_last) await stopServer(cluster);
  await client.end().catch(() => undefined);
}

/** Holds the seat until `stop`, taking it anew (and launching the server anew) should the connection break. */
function holdSeat(attempt: Attempt, seat: Seat): () => Promise<void> {
  const { cluster, options } = attempt;
  let current: Promise<Seat | undefined> = Promise.resolve(seat);
  let left: Promise<void> | undefined;
  const watch = ({ client, socket }: Seat): void => {
    // The seat alone never keeps a process alive.
    socket.unref();
    client.once("end", () => {
      if (!left) current = retake();
    });
  };
  const retake = async (): Promise<Seat | undefined> => {
    options.log.warn(
      { directory: cluster.directory },
      "connection to the embedded postgresql lost, taking it up again",
    );
    try {
      const next = await enter({ cluster, options: { ...options, port: seat.port } });
      watch(next);
      return next;
    } catch (error) {
      options.log.error({ err: error }, "the embedded postgresql is gone");
      return undefined;
    }
  };
  watch(seat);
  const stop = async (): Promise<void> => {
    const last = await current;
    if (last) await leave(cluster, last).catch((error) => options.log.warn({ err: error }, "lost while leaving"));
  };
  return () => {
    left ??= stop();
    return left;
  };
}

/**
 * Starts the PostgreSQL that the `embedded-postgres` package carries on `dataDir`, or joins the one that already serves
 * it: another process's, or one that outlived its process. Works as root too, then under another account.
 * Promises: data survives restarts and crashes; throws STORE_UNAVAILABLE, naming the directory and the reason.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const cluster = await openCluster({ dataDir: options.dataDir, rootHome: options.rootHome });
  const attempt: Attempt = { cluster, options };
  const seat = await enter(attempt);
  await ensureDatabase(seat);
  // A convenience alone: without the file the next start takes any free port.
  await writeFile(portFile(cluster), `${seat.port}\n`, { mode: 0o600 }).catch(() => undefined);
  const stop = holdSeat(attempt, seat);
  const details = { directory: cluster.directory, port: seat.port, launched: attempt.launched !== undefined };
  options.log.info(details, "embedded postgresql is running");
  const url = `postgresql://${OWNER}:${cluster.password}@${LISTEN_ADDRESS}:${seat.port}/${DATABASE}`;
  return { url, stop };
}
