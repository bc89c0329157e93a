import { create, type Message, type MessageInitShape } from "@bufbuild/protobuf";
import type { ControlPlaneError } from "../errors.ts";
import { CheckedRequests, type RequestFaultReply } from "./checked-requests.ts";
import { codeNameOf } from "./error-mapping.ts";
import { LiveCall } from "./live-call.ts";
import { OK } from "./metrics.ts";
import { cancelled } from "./refusals.ts";

type Reply = IteratorResult<Message, undefined>;

interface Waiter {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: ControlPlaneError) => void;
}

/** Replies that may wait for the reader before refused requests stop being read. */
const MAX_READY = 16;
const DONE: Reply = { done: true, value: undefined };

/**
 * A server or bidirectional stream and the replies that its transport sends. MUST be opened once; then read by one reader
 * that does not ask for the next reply before it has the last. An abort ends it at once, whatever the service function does.
 */
export class StreamCall extends LiveCall implements AsyncIterable<Message>, AsyncIterator<Message, undefined> {
  #source: AsyncIterator<unknown> | undefined = undefined;
  #requests: CheckedRequests | undefined = undefined;
  #waiter: Waiter | undefined = undefined;
  #pulling = false;
  #finished = false;
  #failure: ControlPlaneError | undefined = undefined;
  #drainedWith: ControlPlaneError | undefined = undefined;
  readonly #ready: Message[] = [];
  #onRoom: () => void = () => {};
  #onEnd: () => void = () => {};

  /** Admits the call and starts the service function. Rejects with what the call is refused for. */
  async open(onEnd: () => void, begin: (call: StreamCall) => unknown): Promise<this> {
    this.#onEnd = onEnd;
    try {
      // A stream outlives its admission, so that its caller's leaving is always of interest.
      this.watchCaller();
      await this.admit();
      if (this.#failure !== undefined) throw this.#failure;
      this.#source = (begin(this) as AsyncIterable<unknown>)[Symbol.asyncIterator]();
      return this;
    } catch (error) {
      throw this.#fail(error);
    }
  }

  /** Checks the requests of a bidirectional stream before the service function sees them. */
  checked(requests: AsyncIterable<Message>, faultReply: RequestFaultReply | undefined): AsyncIterable<Message> {
    this.#requests = new CheckedRequests({
      source: requests[Symbol.asyncIterator](),
      check: this.endpoint.check,
      faultReply,
      emit: (reply) => {
        this.#emit(reply);
        return this.#room();
      },
      fail: (error) => this.#fail(error),
    });
    return this.#requests;
  }

  /** Ends the stream with `error`: at once, or when the requests that the service function has taken are answered. */
  drain(error: ControlPlaneError): void {
    this.#drainedWith = error;
    if (this.#requests === undefined) this.abort(error);
    else this.#requests.stop();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Reply> {
    const ready = this.#ready.shift();
    if (ready !== undefined) {
      this.#onRoom();
      return Promise.resolve({ done: false, value: ready });
    }
    if (this.#failure !== undefined) return this.#rejectOnce();
    if (this.#finished) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
      if (!this.#pulling) this.#pull();
    });
  }

  /** The reader leaves: the signal fires and the service function's `return()` runs. */
  return(): Promise<Reply> {
    this.abort(cancelled());
    this.#failure = undefined;
    return Promise.resolve(DONE);
  }

  protected override onAbort(error: ControlPlaneError): void {
    this.#stop(error);
  }

  #pull(): void {
    const source = this.#source;
    if (source === undefined) return;
    this.#pulling = true;
    source.next().then(
      ({ done, value }) => {
        this.#pulling = false;
        if (done) this.#finish();
        else this.#reply(value);
      },
      (error) => {
        this.#pulling = false;
        this.#fail(error);
      },
    );
  }

  #reply(value: unknown): void {
    try {
      const { output } = this.endpoint.method;
      this.#emit(create(output, value as MessageInitShape<typeof output>));
    } catch (error) {
      this.#fail(error);
    }
  }

  #emit(reply: Message): void {
    if (this.ended) return;
    const waiter = this.#waiter;
    if (waiter === undefined) {
      this.#ready.push(reply);
      return;
    }
    this.#waiter = undefined;
    waiter.resolve({ done: false, value: reply });
  }

  /** Resolves when the reader has caught up; undefined when it has. */
  #room(): Promise<void> | undefined {
    if (this.ended || this.#ready.length < MAX_READY) return undefined;
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  #finish(): void {
    if (this.ended) return;
    const failure = this.#drainedWith;
    this.#end(failure === undefined ? OK : codeNameOf(failure));
    if (failure === undefined) this.#waiter?.resolve(DONE);
    else this.#tell(failure);
  }

  #fail(error: unknown): ControlPlaneError {
    const failure = this.failureFrom(error);
    this.#stop(failure);
    return failure;
  }

  #stop(failure: ControlPlaneError): void {
    if (this.ended) return;
    this.#end(codeNameOf(failure));
    this.#ready.length = 0;
    this.#tell(failure);
    // Nobody is left to be told of a failure while the source cleans up, except for the log.
    this.#source?.return?.()?.catch((error) => this.failureFrom(error));
  }

  /** The reader is told of the failure: now, or after the replies that are ready. */
  #tell(failure: ControlPlaneError): void {
    if (this.#waiter === undefined) this.#failure = failure;
    else this.#waiter.reject(failure);
  }

  #end(code: string): void {
    this.ended = true;
    this.#finished = true;
    this.environment.wheel.remove(this);
    this.endpoint.metrics.stream(this.incoming.wire, code);
    this.#requests?.close();
    this.#onRoom();
    this.#onEnd();
  }

  #rejectOnce(): Promise<never> {
    const failure = this.#failure;
    this.#failure = undefined;
    return Promise.reject(failure);
  }
}
