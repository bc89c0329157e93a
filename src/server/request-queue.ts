import type { Message } from "@bufbuild/protobuf";

/** Requests that may wait before the sender is held back. */
const HIGH_MARK = 64;
/** Requests left at which the sender is let on. */
const LOW_MARK = 16;

type Next = IteratorResult<Message, undefined>;

interface Waiter {
  readonly resolve: (next: Next) => void;
  readonly reject: (error: unknown) => void;
}

/** The source that a queue holds back, such as a readable stream. */
export interface Pausable {
  pause(): unknown;
  resume(): unknown;
}

const DONE: Next = { done: true, value: undefined };

/**
 * Requests from an event source as one async iterator: a promise for each request and nothing else. Requests come out in
 * the order in which they went in; those that came before an end or a failure still come out.
 */
export class RequestQueue implements AsyncIterable<Message>, AsyncIterator<Message, undefined> {
  readonly #source: Pausable;
  readonly #waiting: Message[] = [];
  #head = 0;
  #waiter: Waiter | undefined = undefined;
  #ended = false;
  #error: unknown = undefined;
  #paused = false;

  constructor(source: Pausable) {
    this.#source = source;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  push(request: Message): void {
    if (this.#ended) return;
    const waiter = this.#waiter;
    if (waiter !== undefined) {
      this.#waiter = undefined;
      waiter.resolve({ done: false, value: request });
      return;
    }
    this.#waiting.push(request);
    if (this.#paused || this.#size() < HIGH_MARK) return;
    this.#paused = true;
    this.#source.pause();
  }

  /** No more requests come; with an error, the reader gets it after the last request. */
  end(error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    const waiter = this.#waiter;
    this.#waiter = undefined;
    if (waiter === undefined) return;
    if (error === undefined) waiter.resolve(DONE);
    else waiter.reject(error);
  }

  next(): Promise<Next> {
    if (this.#size() > 0) return Promise.resolve({ done: false, value: this.#take() });
    if (this.#error !== undefined) return Promise.reject(this.#error);
    if (this.#ended) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
    });
  }

  /** The reader wants no more: what comes still is dropped. */
  return(): Promise<Next> {
    this.#waiting.length = 0;
    this.#head = 0;
    this.#error = undefined;
    this.end();
    if (this.#paused) this.#source.resume();
    return Promise.resolve(DONE);
  }

  #size(): number {
    return this.#waiting.length - this.#head;
  }

  #take(): Message {
    const request = this.#waiting[this.#head] as Message;
    this.#head += 1;
    if (this.#head === this.#waiting.length || this.#head === HIGH_MARK) {
      this.#waiting.splice(0, this.#head);
      this.#head = 0;
    }
    if (this.#paused && this.#size() <= LOW_MARK) {
      this.#paused = false;
      this.#source.resume();
    }
    return request;
  }
}
