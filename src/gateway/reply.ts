import type { ServerResponse } from "node:http";
import { Turns } from "../async/turns.ts";
import { writeJson } from "../json/write-json.ts";
import { isResponse, outcomeOf, type RpcMessage, type RpcOutcome, type SseEvent, sseText } from "./messages.ts";

const NEVER_STORED = { "cache-control": "no-store", "x-content-type-options": "nosniff" };
const STREAM_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  "x-content-type-options": "nosniff",
};
/** Milliseconds between comments on an idle stream: common proxies drop a connection after 30 s without traffic. */
const KEEP_ALIVE_MS = 15_000;

/** Characters above which a text has a turn of the event loop of its own, in which it is encoded and sent. */
const LARGE_TEXT = 262_144;

/** Receiver of a response: a client, or a buffer for a client that asks later. */
export type Answer = Pick<
  Reply,
  | "hasBegun"
  | "isOver"
  | "delivered"
  | "setHeader"
  | "beginStream"
  | "event"
  | "retry"
  | "message"
  | "finish"
  | "text"
  | "end"
>;

/** Response to one HTTP request: one JSON message, or a stream of events. */
export class Reply {
  readonly #response: ServerResponse;
  /** Headers of every response of the exchange, such as the session. */
  readonly #headers: Record<string, string> = {};
  #keepAlive: NodeJS.Timeout | undefined;
  #outcome: RpcOutcome | undefined;
  /** Resolves with true once the last write was handed to the connection. */
  #written = Promise.resolve(false);

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  /** True once the response has begun. */
  get hasBegun(): boolean {
    return this.#response.headersSent;
  }

  /** True once the response is complete or nobody reads it any more. */
  get isOver(): boolean {
    return this.#response.destroyed || this.#response.writableEnded;
  }

  /** Status of HTTP. */
  get status(): number {
    return this.#response.statusCode;
  }

  /** Outcome of the request; undefined if the reply has no response of JSON-RPC. */
  get outcome(): RpcOutcome | undefined {
    return this.#outcome;
  }

  /**
   * Resolves with true once everything written so far was handed to the connection, and with false if the connection closes
   * before, or nothing was written.
   */
  delivered(): Promise<boolean> {
    const response = this.#response;
    const closed = new Promise<boolean>((resolve) => {
      if (response.destroyed) resolve(false);
      else response.once("close", () => resolve(false));
    });
    return Promise.race([this.#written, closed]);
  }

  /** Sets a header of the response. Has no effect once the response has begun. */
  setHeader(name: string, value: string): void {
    this.#headers[name] = value;
  }

  /** Begins a stream of events, unless one has begun. */
  beginStream(): void {
    if (this.hasBegun || this.isOver) return;
    this.#response.writeHead(200, { ...STREAM_HEADERS, ...this.#headers });
    this.#response.flushHeaders();
    this.#keepAlive = setInterval(() => this.#response.write(": keep-alive\n\n"), KEEP_ALIVE_MS);
    this.#keepAlive.unref();
    this.#response.once("close", () => clearInterval(this.#keepAlive));
  }

  /** Writes an event; resolves once there is room for more. */
  async event(event: Pick<SseEvent, "data"> & Partial<SseEvent>): Promise<void> {
    await this.#write(sseText(event));
  }

  /** Tells the client in how many milliseconds to reconnect. */
  async retry(ms: number): Promise<void> {
    await this.#write(`retry: ${ms}\n\n`);
  }

  /** Writes a message as an event. `place`: its name and id. */
  async message(message: RpcMessage, place: Partial<SseEvent> = { event: "message" }): Promise<void> {
    if (isResponse(message)) this.#outcome = outcomeOf(message);
    await this.event({ ...place, data: await textOf(message) });
  }

  /** Answers with one message: as JSON, or as the last event of the stream that has begun. */
  async finish(message: RpcMessage, status = 200): Promise<void> {
    if (isResponse(message)) this.#outcome = outcomeOf(message);
    const text = await textOf(message);
    if (!this.hasBegun) return this.text(status, "application/json", text);
    await this.event({ event: "message", data: text });
    this.end();
  }

  /** Answers with one JSON value. */
  json(status: number, value: unknown): void {
    this.text(status, "application/json", JSON.stringify(value));
  }

  /** Answers with a text or an empty body. Does nothing once the response has begun. */
  text(status: number, contentType: string | undefined, text: string): void {
    if (this.hasBegun || this.isOver) {
      this.#written = Promise.resolve(false);
      return;
    }
    const type = contentType === undefined ? {} : { "content-type": contentType };
    const length = text === "" ? {} : { "content-length": Buffer.byteLength(text) };
    this.#response.writeHead(status, { ...NEVER_STORED, ...this.#headers, ...type, ...length });
    this.#note((done) => this.#response.end(text, done));
  }

  /** Ends a stream. */
  end(): void {
    clearInterval(this.#keepAlive);
    if (!this.isOver) this.#response.end();
  }

  /** Breaks the response off, so that the client sees a lost connection and not a regular end. */
  breakOff(): void {
    clearInterval(this.#keepAlive);
    this.#response.destroy();
  }

  /** Notes whether a write reaches the connection. */
  #note(write: (done: (error?: Error | null) => void) => void): void {
    this.#written = new Promise((resolve) => write((error) => resolve(error === undefined || error === null)));
  }

  async #write(text: string): Promise<void> {
    if (this.isOver) {
      this.#written = Promise.resolve(false);
      return;
    }
    let hasRoom = false;
    this.#note((done) => {
      hasRoom = this.#response.write(text, done);
    });
    if (hasRoom) return;
    const response = this.#response;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        response.off("drain", settle).off("close", settle);
        resolve();
      };
      response.on("drain", settle).on("close", settle);
    });
  }
}

async function textOf(message: RpcMessage): Promise<string> {
  const text = await writeJson(message);
  if (text.length > LARGE_TEXT) await new Turns().next();
  return text;
}
