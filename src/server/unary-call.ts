import { create, type Message, type MessageInitShape } from "@bufbuild/protobuf";
import type { ControlPlaneError } from "../errors.ts";
import { codeNameOf } from "./error-mapping.ts";
import { LiveCall } from "./live-call.ts";
import { OK } from "./metrics.ts";
import { deadlineExceeded } from "./refusals.ts";

/** A unary call. `run` MUST be called once. */
export class UnaryCall extends LiveCall {
  #resolve!: (response: Message) => void;
  #reject!: (error: ControlPlaneError) => void;
  #onEnd!: () => void;

  /** Settles with the response or with a `ControlPlaneError`, at the latest when the deadline passes. `onEnd` comes just before. */
  run(request: Message, onEnd: () => void): Promise<Message> {
    this.#onEnd = onEnd;
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#start(request);
    });
  }

  protected override onAbort(error: ControlPlaneError): void {
    this.#end(codeNameOf(error));
    this.#reject(error);
  }

  #start(request: Message): void {
    try {
      const admitted = this.admit();
      if (admitted === undefined) this.#serve(request);
      else admitted.then(() => this.#serve(request)).catch((error) => this.#fail(error));
    } catch (error) {
      this.#fail(error);
    }
  }

  #serve(request: Message): void {
    if (this.ended) return;
    this.endpoint.check(request);
    if (this.isExpired()) throw deadlineExceeded();
    const response = this.endpoint.serve(request, this) as Promise<unknown>;
    response.then(
      (value) => this.#succeed(value),
      (error) => this.#fail(error),
    );
  }

  #succeed(value: unknown): void {
    if (this.ended) return;
    try {
      const { output } = this.endpoint.method;
      const message = create(output, value as MessageInitShape<typeof output>);
      this.#end(OK);
      this.#resolve(message);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    // A fault that comes after the deadline reaches no caller, but the log has to have it.
    const failure = this.failureFrom(error);
    if (this.ended) return;
    this.#end(codeNameOf(failure));
    this.#reject(failure);
  }

  #end(code: string): void {
    this.ended = true;
    this.environment.wheel.remove(this);
    this.endpoint.metrics.unary(this.incoming.wire, code, (performance.now() - this.receivedAt) / 1000);
    this.#onEnd();
  }
}
