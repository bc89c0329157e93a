/*
 * Load by clients that exist: grpc-js for streams, and for unary calls where h2load is not installed; Node's own HTTP client
 * for REST where wrk is not. They share the load process, whose cost is shown beside what it measures.
 */
import { once } from "node:events";
import { Agent, request as httpRequest } from "node:http";
import { text } from "node:stream/consumers";
import { type ClientDuplexStream, credentials, Client as GrpcClient, Metadata, type ServiceError } from "@grpc/grpc-js";
import { quantile, REST_PATH, type Run, type Source, STREAM_PATH, type Target, UNARY_PATH } from "./load.ts";
import { jsonOf, PLACEHOLDER_ID, requestsOf, streamBytes, unaryBytes } from "./workload.ts";

/** Keeps how long calls took, between `begin` and `finish`. */
export class Recorder {
  #durations = new Float64Array(1 << 20);
  #calls = 0;
  #replies = 0;
  #startedAt: number | undefined;

  begin(): void {
    this.#startedAt = performance.now();
  }

  /** Takes in a call that began at `startedAt` and stands for `weight` replies. */
  record(startedAt: number, weight = 1): void {
    if (this.#startedAt === undefined) return;
    if (this.#calls === this.#durations.length) {
      const longer = new Float64Array(this.#durations.length * 2);
      longer.set(this.#durations);
      this.#durations = longer;
    }
    this.#durations[this.#calls++] = performance.now() - startedAt;
    this.#replies += weight;
  }

  finish(): Run {
    const seconds = (performance.now() - (this.#startedAt ?? Number.NaN)) / 1_000;
    const sorted = this.#durations.slice(0, this.#calls).sort();
    const replies = this.#replies;
    return { replies, perSecond: replies / seconds, p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
  }
}

/** A running load. */
export interface Lanes {
  readonly recorder: Recorder;
  /** Resolves when the calls in flight are answered. Rejects with the first call that failed. */
  stop(): Promise<void>;
}

/** State shared by the lanes of a load. */
export interface LaneContext {
  readonly recorder: Recorder;
  /** True once no call is to be begun any more. */
  readonly isOver: () => boolean;
}

/** Runs `count` lanes side by side, and `close` once all have ended. */
export function runLanes(
  count: number,
  runLane: (index: number, context: LaneContext) => Promise<void>,
  close: () => unknown,
): Lanes {
  let isOver = false;
  const recorder = new Recorder();
  const context = { recorder, isOver: () => isOver };
  const lanes = Promise.all(Array.from({ length: count }, (_, index) => runLane(index, context)));
  // Told by `stop`; until then a failure must not end the process.
  lanes.catch(() => undefined);
  return {
    recorder,
    async stop() {
      isOver = true;
      try {
        await lanes;
      } finally {
        await close();
      }
    },
  };
}

const connect = ({ address }: Target): GrpcClient =>
  new GrpcClient(address, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });

function closeAll(clients: readonly GrpcClient[]): void {
  for (const client of clients) client.close();
}

function metadataOf({ apiKey }: Target): Metadata {
  const metadata = new Metadata();
  metadata.set("x-api-key", apiKey);
  return metadata;
}

const asIs = (bytes: Buffer): Buffer => bytes;

/** Makes one unary call; gives the bytes of its reply. */
function callUnary(client: GrpcClient, metadata: Metadata, body: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(UNARY_PATH, asIs, asIs, body, metadata, (error, reply) =>
      error === null ? resolve(reply ?? Buffer.alloc(0)) : reject(error),
    );
  });
}

/** Makes one unary call on a connection of its own. */
export async function callOnce(target: Target, body: Buffer): Promise<Buffer> {
  const client = connect(target);
  try {
    return await callUnary(client, metadataOf(target), body);
  } finally {
    client.close();
  }
}

/** Starts callers that each wait for a reply before they call again. */
export function startUnary({ target, callers, isShared }: Extract<Source, { kind: "unary" }>): Lanes {
  const bodies = requestsOf(target.agentIds).map(unaryBytes);
  const clients = Array.from({ length: isShared ? 1 : callers }, () => connect(target));
  const metadata = metadataOf(target);
  const runLane = async (lane: number, { recorder, isOver }: LaneContext): Promise<void> => {
    const client = clients[lane % clients.length] as GrpcClient;
    for (let at = Math.floor((bodies.length / callers) * lane); !isOver(); at++) {
      const startedAt = performance.now();
      await callUnary(client, metadata, bodies[at % bodies.length] as Buffer);
      recorder.record(startedAt);
    }
  };
  return runLanes(callers, runLane, () => closeAll(clients));
}

/** Position of the `request_id` in a reply: in its first field, after a byte of tag and a byte of length. */
const REPLY_ID_AT = 2;
const ID_END = REPLY_ID_AT + PLACEHOLDER_ID.length;
/** Tag of field 2 with a length: a decision and not a fault. */
const DECIDED = 0x12;
const DIGITS = 8;
/** Position and digits of the second group of a UUID. */
const GROUP_AT = 9;
const GROUP_DIGITS = 4;

/** Copies a serialised request, with an id that begins at random, in 48 bits, and ends with a number to know the reply by. */
function numbered(template: Buffer, number: number): Buffer {
  const copy = Buffer.from(template);
  const at = copy.indexOf(PLACEHOLDER_ID);
  const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");
  copy.write(hex(Math.floor(Math.random() * 2 ** 32), DIGITS), at, "latin1");
  copy.write(hex(Math.floor(Math.random() * 2 ** 16), GROUP_DIGITS), at + GROUP_AT, "latin1");
  copy.write(hex(number, DIGITS), at + PLACEHOLDER_ID.length - DIGITS, "latin1");
  return copy;
}

function numberOf(reply: Buffer): number {
  if (reply[ID_END] !== DECIDED) throw new Error(`a request of the stream failed: ${reply.toString()}`);
  return Number.parseInt(reply.toString("latin1", ID_END - DIGITS, ID_END), 16);
}

/** Keeps so many requests in flight on a stream. */
function converse(
  stream: ClientDuplexStream<Buffer, Buffer>,
  inFlight: number,
  { recorder, isOver }: LaneContext,
  next: (number: number) => Buffer,
): Promise<void> {
  const startedAt = new Map<number, number>();
  let sent = 0;
  const send = (): void => {
    startedAt.set(sent, performance.now());
    stream.write(next(sent));
    sent += 1;
  };
  return new Promise((resolve, reject) => {
    stream.on("error", (error: ServiceError) => reject(error));
    stream.on("end", () => (startedAt.size === 0 ? resolve() : reject(new Error("a stream ended too early"))));
    stream.on("data", (reply: Buffer) => {
      const number = numberOf(reply);
      recorder.record(startedAt.get(number) ?? Number.NaN);
      startedAt.delete(number);
      if (!isOver()) send();
      else if (startedAt.size === 0) stream.end();
    });
    while (sent < inFlight) send();
  });
}

/** Starts streams on a connection each. */
export function startStreams({ targets, streams, inFlight }: Extract<Source, { kind: "stream" }>): Lanes {
  const sources = targets.map((target) => ({ target, templates: requestsOf(target.agentIds).map(streamBytes) }));
  const lanes = Array.from({ length: streams }, (_, lane) => {
    const { target, templates } = sources[lane % sources.length] as (typeof sources)[number];
    return { client: connect(target), target, templates };
  });
  const runLane = (lane: number, context: LaneContext): Promise<void> => {
    const { client, target, templates } = lanes[lane] as (typeof lanes)[number];
    const first = Math.floor((templates.length / streams) * lane);
    const stream = client.makeBidiStreamRequest(STREAM_PATH, asIs, asIs, metadataOf(target));
    return converse(stream, inFlight, context, (number) =>
      numbered(templates[(first + number) % templates.length] as Buffer, number),
    );
  };
  return runLanes(streams, runLane, () => closeAll(lanes.map(({ client }) => client)));
}

/**
 * Opens streams on a connection each. They have got a reply, the same for all, when this resolves, and stay open without another
 * request until they are disposed of.
 */
export async function openStreams(target: Target, count: number): Promise<Disposable> {
  const [message] = requestsOf(target.agentIds.slice(0, 1)).map(streamBytes) as [Buffer];
  const clients = Array.from({ length: count }, () => connect(target));
  const streams = clients.map((client) => client.makeBidiStreamRequest(STREAM_PATH, asIs, asIs, metadataOf(target)));
  const replies = streams.map((stream) => once(stream, "data"));
  for (const stream of streams) stream.write(message);
  await Promise.all(replies);
  return {
    [Symbol.dispose]() {
      // Told of their end as of a failure.
      for (const stream of streams) stream.on("error", () => undefined).cancel();
      closeAll(clients);
    },
  };
}

/** Posts JSON over REST and reads the text of the reply. Rejects for any status but 200. */
export function callRest(target: Target, agent: Agent, body: string, path = REST_PATH): Promise<string> {
  const headers = { "x-api-key": target.apiKey, "content-type": "application/json", "content-length": body.length };
  return new Promise((resolve, reject) => {
    const url = `http://${target.address}${path}`;
    const request = httpRequest(url, { method: "POST", agent, headers }, (response) => {
      const done = (reply: string): void =>
        response.statusCode === 200 ? resolve(reply) : reject(new Error(`status ${response.statusCode}: ${reply}`));
      text(response).then(done, reject);
    });
    request.once("error", reject).end(body);
  });
}

/** Starts callers on a connection each, kept alive, that wait for a reply before they call again. */
export function startRest({ target, callers }: Extract<Source, { kind: "rest" }>): Lanes {
  const bodies = requestsOf(target.agentIds).map(jsonOf);
  const agent = new Agent({ keepAlive: true, maxSockets: callers });
  const runLane = async (lane: number, { recorder, isOver }: LaneContext): Promise<void> => {
    for (let at = Math.floor((bodies.length / callers) * lane); !isOver(); at++) {
      const startedAt = performance.now();
      await callRest(target, agent, bodies[at % bodies.length] as string);
      recorder.record(startedAt);
    }
  };
  return runLanes(callers, runLane, () => agent.destroy());
}
