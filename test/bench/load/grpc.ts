import { PLACEHOLDER_ID, requestsOf, streamBytes, unaryBytes } from "../workload.ts";
import { callInTurn, faultFrom, headOf } from "./grpc-calls.ts";
import { createMessageReader, framed } from "./grpc-messages.ts";
import { connectHttp2, type Http2Connection } from "./http2-connection.ts";
import { type LaneContext, type Lanes, runLanes } from "./lanes.ts";
import { STREAM_PATH, UNARY_PATH } from "./paths.ts";
import type { Source, Target } from "./plan.ts";
import type { Recorder } from "./recorder.ts";

const NOTHING = Buffer.alloc(0);

/** A connection for each lane, as of runtimes of their own, or one for all. */
function connectLanes({ address }: Target, lanes: number, isShared = false): readonly Http2Connection[] {
  if (isShared) return new Array<Http2Connection>(lanes).fill(connectHttp2(address));
  return Array.from({ length: lanes }, () => connectHttp2(address));
}

function closeAll(connections: readonly Http2Connection[]): void {
  for (const connection of connections) connection.close();
}

/** Callers that each wait for a reply before they call again. */
export function startUnary(source: Extract<Source, { kind: "unary" }>, recorder: Recorder): Lanes {
  const { target, callers, isShared } = source;
  const bodies = requestsOf(target.agentIds).map((request) => framed(unaryBytes(request)));
  const head = headOf(target, UNARY_PATH);
  const connections = connectLanes(target, callers, isShared);
  const runLane = (lane: number, { recorder, isOver }: LaneContext): Promise<void> => {
    let position = Math.floor((bodies.length / callers) * lane);
    let startedAt = 0;
    return callInTurn(connections[lane] as Http2Connection, head, {
      next() {
        if (isOver()) return undefined;
        startedAt = performance.now();
        return bodies[position++ % bodies.length];
      },
      onMessage: () => undefined,
      onReply: () => recorder.record(startedAt),
    });
  };
  return runLanes(callers, recorder, runLane, () => closeAll(connections));
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
  connection: Http2Connection,
  head: Buffer,
  inFlight: number,
  { recorder, isOver }: LaneContext,
  next: (number: number) => Buffer,
): Promise<void> {
  // As many starts as can be under way and more, by the number of the request.
  const startedAt = new Float64Array(1 << 16);
  let sent = 0;
  let answered = 0;
  return new Promise((resolve, reject) => {
    const reader = createMessageReader((reply) => {
      answered += 1;
      recorder.record(startedAt[numberOf(reply) % startedAt.length] as number);
      if (!isOver()) send();
      else if (answered === sent) connection.send(stream, NOTHING, true);
    });
    const stream = connection.open(head, {
      onData: reader.take,
      onEnd: (lastBlock) => (isOver() && answered === sent ? resolve() : reject(faultFrom(lastBlock))),
      onFault: reject,
    });
    const send = (): void => {
      startedAt[sent % startedAt.length] = performance.now();
      connection.send(stream, next(sent), false);
      sent += 1;
    };
    for (let count = 0; count < inFlight; count++) send();
  });
}

/** Streams that each keep a number of requests under way. */
export function startStreams(source: Extract<Source, { kind: "stream" }>, recorder: Recorder): Lanes {
  const { target, streams, inFlight } = source;
  const templates = requestsOf(target.agentIds).map((request) => templateOf(framed(streamBytes(request))));
  const head = headOf(target, STREAM_PATH);
  const connections = connectLanes(target, streams);
  const runLane = (lane: number, context: LaneContext): Promise<void> => {
    const first = Math.floor((templates.length / streams) * lane);
    return converse(connections[lane] as Http2Connection, head, inFlight, context, (number) =>
      numbered(templates[(first + number) % templates.length] as StreamTemplate, number),
    );
  };
  return runLanes(streams, recorder, runLane, () => closeAll(connections));
}
