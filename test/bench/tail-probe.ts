/*
 * Notes when a call passes each stage of the service. Loaded before the program by `NODE_OPTIONS=--import=…`; `TAIL_SOCKET` names the
 * socket on which it tells the calls since it was asked before.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import { openSync, readSync } from "node:fs";
import type { ServerResponse } from "node:http";
import type { ServerHttp2Stream } from "node:http2";
import { createServer } from "node:net";
import { PerformanceObserver, performance } from "node:perf_hooks";
import { isMainThread } from "node:worker_threads";
import { Batch } from "../../src/log/batch.ts";
import { WorkspaceLog } from "../../src/log/writer.ts";

/** Times of a call, in epoch milliseconds. */
export interface ProbedCall {
  receivedAt: number;
  queuedAt: number;
  decidingAt: number;
  decidedAt: number;
  appendedAt: number;
  settledAt: number;
  answeredAt: number;
  /** Actions of its batch. */
  batchSize: number;
  /** Milliseconds for which the thread was ready to run, and did not, so far. */
  delayBefore: number;
  delayAfter: number;
}

/** A piece of time in epoch milliseconds. */
export interface Piece {
  readonly from: number;
  readonly to: number;
}

/** Everything since the probe was asked before. */
export interface Probed {
  readonly calls: readonly ProbedCall[];
  /** Collections of garbage. */
  readonly collections: readonly Piece[];
  /** Turns of the event loop of at least a millisecond. */
  readonly turns: readonly Piece[];
}

const { TAIL_SOCKET } = process.env;
const LONG_TURN_MS = 1;
const running = new AsyncLocalStorage<ProbedCall>();
const byAction = new WeakMap<object, ProbedCall>();
const ended = new WeakMap<object, ProbedCall>();
let calls: ProbedCall[] = [];
let collections: Piece[] = [];
let turns: Piece[] = [];

/** Epoch milliseconds at the origin of `performance.now()`: the system's clock has been set since the process began. */
function originMs(): number {
  const before = Date.now();
  while (Date.now() === before);
  return Date.now() - performance.now();
}

let origin = originMs();
const now = (): number => origin + performance.now();

const schedule = openSync("/proc/thread-self/schedstat", "r");
const read = Buffer.alloc(64);
/** Milliseconds that the thread has waited for a processor. */
function delayMs(): number {
  const length = readSync(schedule, read, 0, read.length, 0);
  return Number(read.toString("latin1", 0, length).split(" ")[1]) / 1e6;
}

function begin(end: object): void {
  const never = Number.NaN;
  const call: ProbedCall = {
    receivedAt: now(),
    queuedAt: never,
    decidingAt: never,
    decidedAt: never,
    appendedAt: never,
    settledAt: never,
    answeredAt: never,
    batchSize: 0,
    delayBefore: delayMs(),
    delayAfter: never,
  };
  ended.set(end, call);
  running.enterWith(call);
}

function finish(end: object): void {
  const call = ended.get(end);
  if (call === undefined || Number.isNaN(call.settledAt)) return;
  call.answeredAt = now();
  call.delayAfter = delayMs();
  calls.push(call);
}

function callsOf(batch: Batch): readonly ProbedCall[] {
  return batch.items.flatMap((item) => ("action" in item ? (byAction.get(item.action) ?? []) : []));
}

function wrapStages(): void {
  const { append } = WorkspaceLog.prototype;
  const { decide, send, settle } = Batch.prototype;
  WorkspaceLog.prototype.append = function (action, steps, isAbandoned) {
    const call = running.getStore();
    if (call !== undefined) {
      call.queuedAt = now();
      byAction.set(action, call);
    }
    return append.call(this, action, steps, isAbandoned);
  };
  Batch.prototype.decide = function () {
    const decidingAt = now();
    decide.call(this);
    const decidedAt = now();
    const batchSize = this.items.length;
    for (const call of callsOf(this)) Object.assign(call, { decidingAt, decidedAt, batchSize });
  };
  Batch.prototype.send = async function (client, tracing) {
    const result = await send.call(this, client, tracing);
    const appendedAt = now();
    for (const call of callsOf(this)) call.appendedAt = appendedAt;
    return result;
  };
  Batch.prototype.settle = function () {
    const settledAt = now();
    for (const call of callsOf(this)) call.settledAt = settledAt;
    settle.call(this);
  };
}

function watchTurns(): void {
  let before = performance.eventLoopUtilization().active;
  const turn = (): void => {
    const { active } = performance.eventLoopUtilization();
    const to = now();
    if (active - before >= LONG_TURN_MS) turns.push({ from: to - (active - before), to });
    before = active;
    // An immediate that nothing waits for runs once in each turn and does not wake an idle loop.
    setImmediate(turn).unref();
  };
  setImmediate(turn).unref();
}

if (TAIL_SOCKET !== undefined && isMainThread) {
  subscribe("http.server.request.start", (message) => begin((message as { response: ServerResponse }).response));
  subscribe("http.server.response.finish", (message) => finish((message as { response: ServerResponse }).response));
  subscribe("http2.server.stream.start", (message) => begin((message as { stream: ServerHttp2Stream }).stream));
  subscribe("http2.server.stream.close", (message) => finish((message as { stream: ServerHttp2Stream }).stream));
  wrapStages();
  watchTurns();
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) {
      const from = origin + startTime;
      collections.push({ from, to: from + duration });
    }
  }).observe({ entryTypes: ["gc"] });
  createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(JSON.stringify({ calls, collections, turns } satisfies Probed));
    [calls, collections, turns] = [[], [], []];
    origin = originMs();
  })
    .listen(TAIL_SOCKET)
    .unref();
}
