import { isResponse, type RpcId, type RpcMessage, type RpcResponse, type SseEvent } from "./messages.ts";
import type { Answer } from "./reply.ts";

/** A client's reply that goes on without the client: it remembers the response to one request. */
export class DetachableReply implements Answer {
  /** Response of the server, or a fault in its place. */
  response: RpcResponse | undefined;
  /** True if the server answered with the text of an HTTP error in place of a response. */
  isRefused = false;
  readonly #client: Answer;
  readonly #id: RpcId;
  #isDetached = false;
  #delivery: Promise<boolean> | undefined;

  constructor(client: Answer, id: RpcId) {
    this.#client = client;
    this.#id = id;
  }

  get hasBegun(): boolean {
    return this.#client.hasBegun;
  }

  /** True once there is nothing more to read from the server. A client that has left does not end it. */
  get isOver(): boolean {
    return this.isRefused || (this.response !== undefined && this.#client.isOver);
  }

  /** Ends the client's reply, because the client has stopped to wait for it. */
  detach(): void {
    if (this.#isDetached) return;
    this.#isDetached = true;
    this.#client.beginStream();
    this.#client.end();
  }

  /** Resolves with true if the response was handed to the client's connection as a whole, before the client left. */
  async delivered(): Promise<boolean> {
    return (await this.#delivery) ?? false;
  }

  event(event: Pick<SseEvent, "data"> & Partial<SseEvent>): Promise<void> {
    return this.#client.event(event);
  }

  async message(message: RpcMessage, place?: Partial<SseEvent>): Promise<void> {
    await this.#client.message(message, place);
    if (this.#isAwaited(message)) this.#note(message as RpcResponse);
  }

  async finish(message: RpcMessage, status?: number): Promise<void> {
    await this.#client.finish(message, status);
    if (this.#isAwaited(message)) this.#note(message as RpcResponse);
  }

  text(status: number, contentType: string | undefined, text: string): void {
    this.isRefused = true;
    this.#client.text(status, contentType, text);
    this.#delivery = this.#client.delivered();
  }

  setHeader(name: string, value: string): void {
    this.#client.setHeader(name, value);
  }

  beginStream(): void {
    this.#client.beginStream();
  }

  retry(ms: number): Promise<void> {
    return this.#client.retry(ms);
  }

  end(): void {
    this.#client.end();
  }

  #isAwaited(message: RpcMessage): boolean {
    return this.response === undefined && isResponse(message) && message.id === this.#id;
  }

  #note(response: RpcResponse): void {
    this.response = response;
    this.#delivery = this.#isDetached ? Promise.resolve(false) : this.#client.delivered();
  }
}
