import { type DescMethod, type Message, toBinary } from "@bufbuild/protobuf";
import { nextTurn } from "../../async/turns.ts";
import { doInTurns } from "../../async/work.ts";
import { ControlPlaneError } from "../../errors.ts";
import type { Call } from "../call-context.ts";
import { cancelled } from "../errors.ts";
import { SMALL_REQUEST } from "../large-requests.ts";
import type { Pipeline, StreamedRequest } from "../pipeline.ts";
import { type RequestBounds, requestBoundsOf } from "../request-bounds.ts";
import { binaryDecoding, decodeBinary } from "../validation.ts";
import type { GrpcExchange, GrpcMethod } from "./exchange.ts";
import type { RequestMessages } from "./request-messages.ts";

/** A method of the pipeline. */
export class PipelineMethod implements GrpcMethod {
  readonly #method: DescMethod;
  readonly #pipeline: Pipeline;
  readonly #bounds: RequestBounds;

  constructor(method: DescMethod, pipeline: Pipeline, maxBodyBytes: number) {
    this.#method = method;
    this.#pipeline = pipeline;
    this.#bounds = requestBoundsOf(method, maxBodyBytes);
  }

  async serve(exchange: GrpcExchange): Promise<void> {
    let call: Call | undefined;
    try {
      call = await this.#pipeline.admit(this.#method, exchange);
      const messages = this.#read(call, exchange);
      if (this.#method.methodKind === "unary") await this.#answerUnary(call, exchange, messages);
      else await this.#answerStream(call, exchange, messages);
    } catch (error) {
      exchange.fail(error instanceof ControlPlaneError ? error : (call?.fail(error) ?? error));
    }
  }

  #read(call: Call, exchange: GrpcExchange): RequestMessages {
    return exchange.read({ bounds: this.#bounds, count: (bytes) => call.hold(bytes) });
  }

  async #answerUnary(call: Call, exchange: GrpcExchange, messages: RequestMessages): Promise<void> {
    const encode = (message: Message) => {
      const value = this.#encode(message);
      return { value, bytes: value.length };
    };
    const reply = await this.#pipeline.unary(call, () => this.#request(call, messages), encode);
    exchange.onClose(() => call.delivered());
    exchange.reply(reply);
  }

  async #answerStream(call: Call, exchange: GrpcExchange, messages: RequestMessages): Promise<void> {
    const pipeline = this.#pipeline;
    const replies =
      this.#method.methodKind === "bidi_streaming"
        ? pipeline.bidiStream(call, this.#requests(call, exchange, messages))
        : await pipeline.serverStream(call, () => this.#request(call, messages));
    exchange.begin();
    for await (const reply of replies) {
      if (!exchange.send(this.#encode(reply))) await exchange.drained(call.signal);
    }
    exchange.finish();
  }

  /** Reads the request of a call that takes one. */
  async #request(call: Call, messages: RequestMessages): Promise<Message> {
    const bytes = await messages.only();
    call.holdAtLeast(bytes.length);
    await call.giveWay();
    if (bytes.length <= SMALL_REQUEST) return this.#decode(bytes);
    return doInTurns(binaryDecoding(this.#method.input, bytes, this.#pipeline.maxDepth, this.#bounds));
  }

  /** Yields the requests of a stream. */
  async *#requests(call: Call, exchange: GrpcExchange, messages: RequestMessages): AsyncGenerator<StreamedRequest> {
    for (let bytes = await messages.next(); bytes !== undefined; bytes = await messages.next()) {
      await call.giveWay(bytes.length);
      yield { request: this.#decode(bytes), bytes: bytes.length };
    }
    // A reset also ends the body, a moment before the stream reports it. The service function must not mistake that for the regular
    // end of the requests.
    await nextTurn();
    if (exchange.hasLeft) throw cancelled();
  }

  #decode(bytes: Buffer): Message {
    return decodeBinary(this.#method.input, bytes, this.#pipeline.maxDepth, this.#bounds);
  }

  #encode(reply: Message): Uint8Array {
    return toBinary(this.#method.output, reply);
  }
}
