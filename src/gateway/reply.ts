import type { ServerResponse } from "node:http";
import { type RpcMessage, type SseEvent, sseText } from "./messages.ts";

const NEVER_STORED = { "cache-control": "no-store", "x-content-type-options": "nosniff" };
const STREAM_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  "x-content-type-options": "nosniff",
};
/** Milliseconds between comments on a quiet stream: common proxies drop connections that idle for 30 s. */
const KEEP_ALIVE_MS = 15_000;

/** An answer that is passed on: to a client, or kept for one that asks later. */
export type Answer = Pick<
  Reply,
  "hasBegun" | "isOver" | "setHeader" | "beginStream" | "event" | "retry" | "message" | "finish" | "text" | "end"
>;

/** The answer to one HTTP request: one JSON message, or a stream of events. */
export class Reply {
  readonly #response: ServerResponse;
  /** Headers that every answer of the exchange carries, such as the session. */
  readonly #headers: Record<string, string> = {};
  #keepAlive: NodeJS.Timeout | undefined;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  /** True once an answer has begun. */
  get hasBegun(): boolean {
    return this.#response.headersSent;
  }

  /** True once nobody reads the answer any more, or it is whole. */
  get isOver(): boolean {
    return this.#response.destroyed || this.#response.writableEnded;
  }

  /** Sets a header of the answer. Without effect once it has begun. */
  setHeader(name: string, value: string): void {
    this.#headers[name] = value;
  }

  /** Begins a stream of events, unless it has begun. */
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

  /** Writes a message as an event. */
  async message(message: RpcMessage): Promise<void> {
    await this.event({ event: "message", data: JSON.stringify(message) });
  }

  /** Answers with one message: as JSON, or as the last event of the stream that has begun. */
  async finish(message: RpcMessage, status = 200): Promise<void> {
    if (this.isOver) return;
    if (!this.hasBegun) return this.json(status, message);
    await this.message(message);
    this.end();
  }

  /** Answers with one JSON value. */
  json(status: number, value: unknown): void {
    this.text(status, "application/json", JSON.stringify(value));
  }

  /** Answers with a text, or with nothing. Does nothing once an answer has begun. */
  text(status: number, contentType: string | undefined, text: string): void {
    if (this.hasBegun || this.isOver) return;
    const type = contentType === undefined ? {} : { "content-type": contentType };
    const length = text === "" ? {} : { "content-length": Buffer.byteLength(text) };
    this.#response.writeHead(status, { ...NEVER_STORED, ...this.#headers, ...type, ...length }).end(text);
  }

  /** Ends a stream. */
  end(): void {
    clearInterval(this.#keepAlive);
    if (!this.isOver) this.#response.end();
  }

  /** Breaks the answer off, so that the client sees a lost connection and not an end. */
  breakOff(): void {
    clearInterval(this.#keepAlive);
    this.#response.destroy();
  }

  async #write(text: string): Promise<void> {
    if (this.isOver || this.#response.write(text)) return;
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
