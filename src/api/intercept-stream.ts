import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  InterceptRequest,
  InterceptResponseSchema,
  InterceptStreamRequest,
  InterceptStreamResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { codeFromReason, controlPlaneErrorFrom, ErrorReason, invalidField } from "../errors.ts";

type Reply = MessageInitShape<typeof InterceptStreamResponseSchema>;
type InterceptReply = MessageInitShape<typeof InterceptResponseSchema>;

/** Actions of one stream that may be under way at once; past it the sender is held back. */
const MAX_IN_FLIGHT = 1024;

/** The reply to one request of a stream that failed, so that the stream goes on. */
export function streamFault(requestId: string, error: unknown): Reply {
  const { reason, message } = controlPlaneErrorFrom(error);
  const fault = { code: codeFromReason(reason), reason: ErrorReason[reason], message };
  return { requestId, result: { case: "error", value: fault } };
}

/** Decides the requests of a stream side by side, and gives the replies as they come, in any order. */
export function interceptAll(
  requests: AsyncIterable<InterceptStreamRequest>,
  intercept: (request: InterceptRequest) => Promise<InterceptReply>,
): AsyncIterable<Reply> {
  const replies: Reply[] = [];
  let inFlight = 0;
  let hasEnded = false;
  let failure: unknown;
  let wakeReader = (): void => undefined;
  let wakeWriter = (): void => undefined;

  const add = (reply: Reply): void => {
    inFlight -= 1;
    replies.push(reply);
    wakeReader();
    wakeWriter();
  };

  const start = ({ intercept: request }: InterceptStreamRequest): void => {
    const requestId = request?.requestId;
    inFlight += 1;
    if (request === undefined || requestId === undefined) {
      add(streamFault("", invalidField("intercept.request_id", "is required on a stream: it names the reply")));
      return;
    }
    intercept(request).then(
      (value) => add({ requestId, result: { case: "response", value } }),
      (error: unknown) => add(streamFault(requestId, error)),
    );
  };

  const readAll = async (): Promise<void> => {
    try {
      for await (const request of requests) {
        start(request);
        while (inFlight + replies.length >= MAX_IN_FLIGHT && !hasEnded)
          await new Promise<void>((resolve) => (wakeWriter = resolve));
        if (hasEnded) return;
      }
    } catch (error) {
      failure = error;
    }
    hasEnded = true;
    wakeReader();
  };

  async function* replyAll(): AsyncGenerator<Reply> {
    void readAll();
    try {
      for (;;) {
        for (let reply = replies.shift(); reply !== undefined; reply = replies.shift()) yield reply;
        if (failure !== undefined) throw failure;
        if (hasEnded && inFlight === 0) return;
        wakeWriter();
        await new Promise<void>((resolve) => (wakeReader = resolve));
      }
    } finally {
      hasEnded = true;
      wakeWriter();
    }
  }
  return replyAll();
}
