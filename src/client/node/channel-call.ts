import type {
  InterceptResponse,
  InterceptStreamResponse,
} from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { later } from "../back-off.ts";
import type { ChannelCallOptions } from "../intercept-channel.ts";
import { ControlPlaneRequestError } from "../request-error.ts";
import { channelFault, replyFaultFrom } from "./grpc-fault.ts";

/** A call that waits for its reply. Settles once; what comes later is ignored. */
export interface ChannelCall {
  /** `performance.now()` when it was made, in milliseconds. */
  readonly startedAt: number;
  readonly response: Promise<InterceptResponse>;
  answer(result: InterceptStreamResponse["result"]): void;
  fail(error: ControlPlaneRequestError): void;
}

/** Creates a call that fails by itself with DEADLINE_EXCEEDED, or with the signal's reason. */
export function createChannelCall(
  { signal, timeoutMs }: ChannelCallOptions,
  onTimeout: (call: ChannelCall) => void,
): ChannelCall {
  const { promise: response, resolve, reject } = Promise.withResolvers<InterceptResponse>();
  const onAbort = () => reject(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const cancel = later(timeoutMs, () => {
    reject(new ControlPlaneRequestError("DEADLINE_EXCEEDED", "the control plane did not answer in time"));
    onTimeout(call);
  });
  const release = () => {
    cancel();
    signal?.removeEventListener("abort", onAbort);
  };
  response.then(release, release);
  const call: ChannelCall = {
    startedAt: performance.now(),
    response,
    fail: reject,
    answer(result) {
      if (result.case === "response") resolve(result.value);
      else if (result.case === "error") reject(replyFaultFrom(result.value));
      else reject(channelFault("the control plane sent an empty reply"));
    },
  };
  return call;
}
