import type { Message } from "@bufbuild/protobuf";
import { type ControlPlaneError, controlPlaneErrorFrom } from "../errors.ts";
import { cancelled } from "./refusals.ts";
import type { RequestCheck } from "./request-check.ts";

/** Makes the reply for one request of a stream that was refused, so that the stream may go on. */
export type RequestFaultReply = (request: Message, error: ControlPlaneError) => Message;

/** What the requests of one stream need. */
export interface CheckedRequestsOptions {
  readonly source: AsyncIterator<Message>;
  readonly check: RequestCheck;
  /** Absent: the first refused request ends the stream. */
  readonly faultReply: RequestFaultReply | undefined;
  /** Hands a reply to the stream; gives back a promise to wait for while its reader is behind. */
  readonly emit: (reply: Message) => Promise<void> | undefined;
  readonly fail: (error: unknown) => void;
}

type Next = IteratorResult<Message, undefined>;

const DONE: Next = { done: true, value: undefined };

/** The requests of a bidirectional stream that passed their checks. A closed stream wakes a reader that waits for one. */
export class CheckedRequests implements AsyncIterable<Message>, AsyncIterator<Message, undefined> {
  readonly #options: CheckedRequestsOptions;
  #closed = false;
  #reader: { resolve(next: Next): void; reject(error: ControlPlaneError): void } | undefined = undefined;

  constructor(options: CheckedRequestsOptions) {
    this.#options = options;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Next> {
    if (this.#closed) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
      this.#read(resolve, reject);
    });
  }

  /** The service function wants no more; the rest is not read. */
  return(): Promise<Next> {
    this.close();
    return Promise.resolve(DONE);
  }

  /** Ends the requests: a reader that waits is woken with an error. */
  close(): void {
    if (this.#letGo()) this.#reader?.reject(cancelled());
  }

  /** Ends the requests as if their sender had: what was not taken yet is dropped. */
  stop(): void {
    if (this.#letGo()) this.#reader?.resolve(DONE);
  }

  #letGo(): boolean {
    if (this.#closed) return false;
    this.#closed = true;
    this.#options.source.return?.()?.catch(() => undefined);
    return true;
  }

  #read(resolve: (next: Next) => void, reject: (error: unknown) => void): void {
    this.#options.source.next().then(
      ({ done, value }) => {
        if (done) return resolve(DONE);
        const fault = this.#faultOf(value);
        if (fault === undefined) return resolve({ done: false, value });
        this.#answer(value, fault, () => this.#read(resolve, reject));
      },
      (error) => {
        this.#options.fail(error);
        reject(error);
      },
    );
  }

  #faultOf(request: Message): ControlPlaneError | undefined {
    try {
      this.#options.check(request);
      return undefined;
    } catch (error) {
      return controlPlaneErrorFrom(error);
    }
  }

  /** Ends the stream, or replies to the one request and goes on. */
  #answer(request: Message, fault: ControlPlaneError, goOn: () => void): void {
    const { faultReply, emit, fail } = this.#options;
    if (faultReply === undefined) {
      fail(fault);
      return;
    }
    const room = emit(faultReply(request, fault));
    if (room === undefined) goOn();
    else void room.then(() => this.#closed || goOn());
  }
}
