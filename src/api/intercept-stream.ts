import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  ClaimDecisionRequest,
  ClaimDecisionResponseSchema,
  InterceptRequest,
  InterceptResponseSchema,
  InterceptStreamRequest,
  InterceptStreamResponseSchema,
  ReportOutcomeRequest,
  ReportOutcomeResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ControlPlaneError, codeFromReason, controlPlaneErrorFrom, ErrorReason, invalidField } from "../errors.ts";
import type { Caller } from "./context.ts";
import type { CheckedRequest } from "./service.ts";

type Reply = MessageInitShape<typeof InterceptStreamResponseSchema>;

/** Functions that serve the kinds of requests of a stream. */
export interface StreamFunctions {
  readonly intercept: (
    request: InterceptRequest,
    caller: Caller,
  ) => Promise<MessageInitShape<typeof InterceptResponseSchema>>;
  readonly claim: (
    request: ClaimDecisionRequest,
    caller: Caller,
  ) => Promise<MessageInitShape<typeof ClaimDecisionResponseSchema>>;
  readonly report: (
    request: ReportOutcomeRequest,
    caller: Caller,
  ) => Promise<MessageInitShape<typeof ReportOutcomeResponseSchema>>;
}

/** Maximum number of requests of one stream in flight: taken and not yet replied to. Past it the sender gets back-pressure. */
const MAX_IN_FLIGHT = 1024;

/**
 * Serves the requests of a stream concurrently and yields the replies as they come, in any order. A failed request gets an
 * error as its reply.
 */
export async function* interceptAll(
  requests: AsyncIterable<CheckedRequest<InterceptStreamRequest>>,
  functions: StreamFunctions,
): AsyncGenerator<Reply> {
  const stream = new InterceptStream(functions);
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
  readonly #functions: StreamFunctions;
  readonly #replies: Reply[] = [];
  #inFlight = 0;
  #isReading = true;
  #isStopped = false;
  #wakeReader = (): void => undefined;
  #wakeReplier = (): void => undefined;

  constructor(functions: StreamFunctions) {
    this.#functions = functions;
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

  async #replyTo({ request, caller, fault }: CheckedRequest<InterceptStreamRequest>): Promise<Reply> {
    const requestId = request.intercept?.requestId ?? request.requestId;
    try {
      if (fault !== undefined) throw fault;
      return { requestId: assertNamed(request), result: await this.#resultOf(request, caller) };
    } catch (error) {
      return faultReply(requestId ?? "", error);
    }
  }

  async #resultOf(
    { intercept, claim, report }: InterceptStreamRequest,
    caller: Caller,
  ): Promise<NonNullable<Reply["result"]>> {
    const { intercept: decide, claim: claimAction, report: reportOutcome } = this.#functions;
    if (intercept !== undefined) return { case: "response", value: await decide(intercept, caller) };
    // An ended key opens the decision alone, which refuses.
    if (caller.isEnded === true) throw keyEnded();
    if (claim !== undefined) return { case: "claim", value: await claimAction(claim, caller) };
    if (report !== undefined) return { case: "report", value: await reportOutcome(report, caller) };
    throw invalidField("intercept", "is required, or `claim`, or `report`");
  }
}

/** Returns the id of the reply. Throws INVALID_FIELD for a request without one, or with two. */
function assertNamed({ intercept, requestId }: InterceptStreamRequest): string {
  if (intercept === undefined) {
    if (requestId !== undefined) return requestId;
    throw invalidField("request_id", "is required for a claim and a report on a stream: it names the reply");
  }
  if (requestId !== undefined) throw invalidField("request_id", "goes with a claim or a report; an action has its own");
  if (intercept.requestId !== undefined) return intercept.requestId;
  throw invalidField("intercept.request_id", "is required on a stream: it names the reply");
}

function keyEnded(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.KEY_INVALID, "the key is unknown, expired or revoked");
}

function faultReply(requestId: string, error: unknown): Reply {
  const { reason, message } = controlPlaneErrorFrom(error);
  const value = { code: codeFromReason(reason), reason: ErrorReason[reason], message };
  return { requestId, result: { case: "error", value } };
}
