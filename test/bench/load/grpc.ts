import { Client, type ClientDuplexStream, credentials, Metadata } from "@grpc/grpc-js";
import { PLACEHOLDER_ID, requestsOf, streamBytes, unaryBytes } from "../workload.ts";
import { type LaneContext, type Lanes, runLanes } from "./lanes.ts";
import { STREAM_PATH, UNARY_PATH } from "./paths.ts";
import type { Source, Target } from "./plan.ts";
import type { Recorder } from "./recorder.ts";

/** Connections of a load at most. */
const MOST_CHANNELS = 4;

// Messages are serialised beforehand and replies are counted as they come: the load's own work takes from the machine
// what the service could use.
const asIs = (bytes: Buffer): Buffer => bytes;

interface Channels {
  readonly metadata: Metadata;
  of(lane: number): Client;
  close(): void;
}

function openChannels({ address, apiKey }: Target, lanes: number): Channels {
  const options = { "grpc.use_local_subchannel_pool": 1 };
  const clients = Array.from(
    { length: Math.min(MOST_CHANNELS, lanes) },
    () => new Client(address, credentials.createInsecure(), options),
  );
  const metadata = new Metadata();
  metadata.set("x-api-key", apiKey);
  return {
    metadata,
    of: (lane) => clients[lane % clients.length] as Client,
    close() {
      for (const client of clients) client.close();
    },
  };
}

/** Callers that each wait for a reply before they call again. */
export function startUnary(source: Extract<Source, { kind: "unary" }>, recorder: Recorder): Lanes {
  const { target, callers } = source;
  const requests = requestsOf(target.agentIds).map(unaryBytes);
  const channels = openChannels(target, callers);
  const runLane = (lane: number, { recorder, isOver }: LaneContext): Promise<void> => {
    const client = channels.of(lane);
    let next = Math.floor((requests.length / callers) * lane);
    return new Promise((resolve, reject) => {
      const call = (): void => {
        const request = requests[next++ % requests.length] as Buffer;
        const startedAt = performance.now();
        client.makeUnaryRequest(UNARY_PATH, asIs, asIs, request, channels.metadata, (error) => {
          if (error !== null) return reject(error);
          recorder.record(startedAt);
          if (isOver()) resolve();
          else call();
        });
      };
      call();
    });
  };
  return runLanes(callers, recorder, runLane, channels.close);
}

/** Where a reply has its `request_id`: in its first field, after one byte of tag and one of length. */
const REPLY_ID_AT = 2;
const ID_LENGTH = PLACEHOLDER_ID.length;
/** The tag of field 2 with a length: a decision and not a fault. */
const DECIDED = 0x12;
const DIGITS = Buffer.from("0123456789abcdef");

function writeHex(bytes: Buffer, at: number, value: number): void {
  for (let digit = 0; digit < 8; digit++) {
    bytes[at + digit] = DIGITS[(value >>> (28 - 4 * digit)) & 15] as number;
  }
}

interface StreamTemplate {
  readonly bytes: Buffer;
  readonly idAt: number;
}

function templateOf(bytes: Buffer): StreamTemplate {
  return { bytes, idAt: bytes.indexOf(PLACEHOLDER_ID) };
}

/** A copy of a template whose id begins at random, as a UUID does, and ends with a number to know the reply by. */
function numbered({ bytes, idAt }: StreamTemplate, number: number): Buffer {
  const copy = Buffer.from(bytes);
  writeHex(copy, idAt, Math.random() * 2 ** 32);
  writeHex(copy, idAt + 28, number);
  return copy;
}

function numberOf(reply: Buffer): number {
  const end = REPLY_ID_AT + ID_LENGTH;
  if (reply[end] !== DECIDED) throw new Error(`a request of the stream failed: ${reply.toString()}`);
  return Number.parseInt(reply.toString("latin1", end - 8, end), 16);
}

function converse(
  call: ClientDuplexStream<Buffer, Buffer>,
  inFlight: number,
  { recorder, isOver }: LaneContext,
  next: (number: number) => Buffer,
): Promise<void> {
  // As many starts as can be under way and more, by the number of the request.
  const startedAt = new Float64Array(1 << 16);
  let sent = 0;
  let answered = 0;
  const send = (): void => {
    startedAt[sent % startedAt.length] = performance.now();
    call.write(next(sent));
    sent += 1;
  };
  return new Promise((resolve, reject) => {
    call.on("error", reject);
    call.on("end", () => (isOver() && answered === sent ? resolve() : reject(new Error("a stream ended early"))));
    call.on("data", (reply: Buffer) => {
      answered += 1;
      recorder.record(startedAt[numberOf(reply) % startedAt.length] as number);
      if (!isOver()) send();
      else if (answered === sent) call.end();
    });
    for (let count = 0; count < inFlight; count++) send();
  });
}

/** Streams that each keep a number of requests under way. */
export function startStreams(source: Extract<Source, { kind: "stream" }>, recorder: Recorder): Lanes {
  const { target, streams, inFlight } = source;
  const templates = requestsOf(target.agentIds).map(streamBytes).map(templateOf);
  const channels = openChannels(target, streams);
  const runLane = (lane: number, context: LaneContext): Promise<void> => {
    const call = channels.of(lane).makeBidiStreamRequest(STREAM_PATH, asIs, asIs, channels.metadata);
    const first = Math.floor((templates.length / streams) * lane);
    return converse(call, inFlight, context, (number) =>
      numbered(templates[(first + number) % templates.length] as StreamTemplate, number),
    );
  };
  return runLanes(streams, recorder, runLane, channels.close);
}
