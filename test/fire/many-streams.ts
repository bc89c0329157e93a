import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { setTimeout as delay } from "node:timers/promises";
import { memoryMib } from "../bench/cpu.ts";
import { quantile } from "../bench/load.ts";
import { decided, interceptOver, post } from "../log/rest.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { registerAgents } from "./agents.ts";
import type { Actor } from "./retrying-callers.ts";

/** Size of a run. */
export interface StreamsSize {
  readonly streams: number;
  /** Keys that the streams are opened with, in turn. */
  readonly keys: number;
  /** Streams from the beginning of the log that nobody reads. */
  readonly slowReaders: number;
  /** Decisions that are made while the streams are open. */
  readonly decisions: number;
}

/** Result of a run. Memory is resident. */
export interface StreamsReport {
  /** KiB that an open stream takes. */
  readonly streamKib: number;
  /** Milliseconds until the last stream heard of a decision. */
  readonly heardMs: number;
  /** Milliseconds of decisions without streams, p50 and p99. */
  readonly alone: readonly [number, number];
  /** The same beside streams that nobody reads. */
  readonly besideSlow: readonly [number, number];
  /** MiB by which the process grew beside streams that nobody reads. */
  readonly slowMib: number;
  /** Descriptions of broken promises. */
  readonly faults: readonly string[];
}

const ACTION = "streams.act";
const STREAMS_A_CONNECTION = 500;
const METHOD = "/agentcontrol.v1.EnforcementService/WatchDecisions";
/** In a MiB. */
const KIB = 1_024;
/** Milliseconds within which a stream begins, and hears of a decision. */
const PATIENCE_MS = 120_000;

/** The request for new decisions, or for all from the beginning of the log, in the frame of gRPC. */
function watchFrame(fromBeginning: boolean): Buffer {
  const message = fromBeginning ? Buffer.from([0x0a, 1, 0x30]) : Buffer.alloc(0);
  return Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);
}

/** Opens streams over connections of their own, and keeps how many messages each has received. */
class Watches {
  readonly #sessions: ClientHttp2Session[] = [];
  readonly #streams: ClientHttp2Stream[] = [];
  readonly #bytes: number[] = [];
  #ended = 0;

  async open(grpc: string, keys: readonly string[], count: number): Promise<void> {
    for (let index = 0; index < count; index++) {
      if (index % STREAMS_A_CONNECTION === 0) this.#sessions.push(await this.#session(grpc));
      const session = this.#sessions.at(-1) as ClientHttp2Session;
      const at = this.#bytes.push(0) - 1;
      const stream = this.#request(session, keys[index % keys.length] as string, false);
      stream.on("data", (chunk: Buffer) => {
        this.#bytes[at] = (this.#bytes[at] ?? 0) + chunk.length;
      });
      if (index % 100 === 99) await this.begun(index + 1);
    }
    await this.begun(count);
  }

  /** Opens streams from the beginning of the log, and reads none of them. */
  async openUnread(grpc: string, keys: readonly string[], count: number): Promise<void> {
    const session = await this.#session(grpc);
    this.#sessions.push(session);
    for (let index = 0; index < count; index++)
      this.#request(session, keys[index % keys.length] as string, true).pause();
  }

  /** Waits until so many streams have received something. */
  async begun(count: number): Promise<void> {
    await this.#until(() => this.#bytes.slice(0, count).every((bytes) => bytes > 0));
  }

  /** Waits until every stream has received more than before. */
  async heard(before: readonly number[]): Promise<void> {
    await this.#until(() => this.#bytes.every((bytes, index) => bytes > (before[index] ?? 0)));
  }

  received(): readonly number[] {
    return [...this.#bytes];
  }

  get ended(): number {
    return this.#ended;
  }

  close(): void {
    for (const session of this.#sessions) session.destroy();
  }

  async #session(grpc: string): Promise<ClientHttp2Session> {
    const session = connect(`http://${grpc}`);
    session.on("error", () => undefined);
    await once(session, "connect");
    return session;
  }

  #request(session: ClientHttp2Session, key: string, fromBeginning: boolean): ClientHttp2Stream {
    const headers = { ":method": "POST", ":path": METHOD, "content-type": "application/grpc", te: "trailers" };
    const stream = session.request({ ...headers, "x-api-key": key });
    this.#streams.push(stream);
    stream.on("error", () => undefined);
    stream.once("close", () => {
      this.#ended += 1;
    });
    stream.end(watchFrame(fromBeginning));
    return stream;
  }

  async #until(isSo: () => boolean): Promise<void> {
    for (const end = performance.now() + PATIENCE_MS; !isSo(); await delay(20)) {
      if (performance.now() > end) throw new Error("a stream did not hear in time");
    }
  }
}

async function createKeys(server: TestServer, count: number): Promise<readonly string[]> {
  type Reply = { readonly secret: string };
  const create = (_: unknown, index: number) =>
    post<Reply>(server, "/v1/admin/keys", { name: `watcher ${index}`, role: "operator" });
  return (await Promise.all(Array.from({ length: count }, create))).map(({ secret }) => secret);
}

/** Makes decisions one after the other. Returns p50 and p99 of their milliseconds. */
async function decide(server: TestServer, { agentId }: Actor, count: number): Promise<readonly [number, number]> {
  const times: number[] = [];
  for (let call = 0; call < count; call++) {
    const startedAt = performance.now();
    decided(await interceptOver(server, { agent_id: agentId, action_type: ACTION }));
    times.push(performance.now() - startedAt);
  }
  const sorted = Float64Array.from(times).sort();
  return [quantile(sorted, 0.5), quantile(sorted, 0.99)];
}

/** Opens many streams on one process, makes decisions beside them, and again beside streams that nobody reads. */
export async function runManyStreams(databaseUrl: string, size: StreamsSize): Promise<StreamsReport> {
  await using cleanup = new AsyncDisposableStack();
  const env = { ACP_ADMIN_KEY: randomBytes(24).toString("base64url"), ACP_LOG_LEVEL: "error" };
  const server = await startServer({ databaseUrl, env });
  cleanup.defer(async () => void (await server.stop()));
  const [actor] = (await registerAgents(server, 1)) as [Actor];
  const keys = await createKeys(server, size.keys);
  const alone = await decide(server, actor, size.decisions);
  const faults: string[] = [];
  const before = memoryMib(server.pid);
  const watches = new Watches();
  cleanup.defer(async () => watches.close());
  await watches.open(server.grpc, keys, size.streams);
  const streamKib = ((memoryMib(server.pid) - before) * KIB) / size.streams;
  const received = watches.received();
  const startedAt = performance.now();
  await decide(server, actor, 1);
  await watches.heard(received);
  const heardMs = performance.now() - startedAt;
  if (watches.ended > 0) faults.push(`${watches.ended} streams ended by themselves`);
  watches.close();
  const unread = new Watches();
  cleanup.defer(async () => unread.close());
  const beforeSlow = memoryMib(server.pid);
  await unread.openUnread(server.grpc, keys, size.slowReaders);
  const besideSlow = await decide(server, actor, size.decisions);
  const slowMib = memoryMib(server.pid) - beforeSlow;
  return { streamKib, heardMs, alone, besideSlow, slowMib, faults };
}
