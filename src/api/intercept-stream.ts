import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  InterceptRequest,
  InterceptResponseSchema,
  InterceptStreamRequest,
  InterceptStreamResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { codeFromReason, controlPlaneErrorFrom, ErrorReason, invalidField } from "../errors.ts";
import type { Caller } from "./context.ts";
import type { CheckedRequest } from "./service.ts";

type Reply = MessageInitShape<typeof InterceptStreamResponseSchema>;
type Decide = (request: InterceptRequest, caller: Caller) => Promise<MessageInitShape<typeof InterceptResponseSchema>>;

/** Maximum number of requests of one stream in flight: taken and not yet replied to. Past it the sender gets back-pressure. */
const MAX_IN_FLIGHT = 1024;

/**
 * Decides the requests of a stream concurrently and yields the replies as they come, in any order. A failed request gets an
 * error as its reply.
 */
export async function* interceptAll(
  requests: AsyncIterable<CheckedRequest<InterceptStreamRequest>>,
  decide: Decide,
): AsyncGenerator<Reply> {
  const stream = new InterceptStream(decide);
  const reading = stream.read(requests);
  // Its failure is thrown below, after the replies to what was read before it.
  reading.catch(() => undefined);
  try {
    for (;;) {
      const reply = await stream.nextReply();
      if (reply === undefined) break;
      yield reply;
    }
    await reading;
  } finally {
    stream.stop();
  }
}

/** The requests in flight of one stream, between the loop that reads them and the one that replies. */
class InterceptStream {
  readonly #decide: Decide;
  readonly #replies: Reply[] = [];
  #inFlight = 0;
  #isReading = true;
  #isStopped = false;
  #wakeReader = (): void => undefined;
  #wakeReplier = (): void => undefined;

  constructor(decide: Decide) {
    this.#decide = decide;
  }

  /** Resolves when all requests are read or the stream has stopped. Rejects if they cannot be read. */
  async read(requests: AsyncIterable<CheckedRequest<InterceptStreamRequest>>): Promise<void> {
    try {
      for await (const request of requests) {
        this.#inFlight += 1;
        void this.#replyTo(request).then((reply) => {
          request.answered();
          this.#add(reply);
        });
        while (this.#inFlight >= MAX_IN_FLIGHT && !this.#isStopped)
          await new Promise<void>((resolve) => (this.#wakeReader = resolve));
        if (this.#isStopped) return;
      }
    } finally {
      this.#isReading = false;
      this.#wakeReplier();
    }
  }

  /** Resolves with the next reply; undefined after the last, or once no more requests can be read. */
  async nextReply(): Promise<Reply | undefined> {
    while (this.#replies.length === 0) {
      if (!this.#isReading && this.#inFlight === 0) return undefined;
      await new Promise<void>((resolve) => (this.#wakeReplier = resolve));
    }
    this.#inFlight -= 1;
    this.#wakeReader();
    return this.#replies.shift();
  }

  stop(): void {
    this.#isStopped = true;
    this.#wakeReader();
  }

  #add(reply: Reply): void {
    this.#replies.push(reply);
    this.#wakeReplier();
  }

  async #replyTo({ request: { intercept }, caller, fault }: CheckedRequest<InterceptStreamRequest>): Promise<Reply> {
    const requestId = intercept?.requestId;
    try {
      if (fault !== undefined) throw fault;
      if (intercept === undefined || requestId === undefined)
        throw invalidField("intercept.request_id", "is required on a stream: it names the reply");
      return { requestId, result: { case: "response", value: await this.#decide(intercept, caller) } };
    } catch (error) {
      return faultReply(requestId ?? "", error);
    }
  }
}

function faultReply(requestId: string, error: unknown): Reply {
  const { reason, message } = controlPlaneErrorFrom(error);
  const value = { code: codeFromReason(reason), reason: ErrorReason[reason], message };
  return { requestId, result: { case: "error", value } };
}
