import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { type UseMutationResult, useMutation } from "@tanstack/react-query";
import { faultText } from "./states.tsx";
import { type Announcement, useAnnounce } from "./toast.tsx";
import { useRefresh } from "./use-refresh.ts";

/** Calls a method of the service. */
export type Call = <I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
) => Promise<MessageShape<O>>;

/** Effects of a change on the page. */
export interface ChangeOptions<R> {
  /** Methods whose answers are read again; after a fault too, since the change may have been made before it. */
  readonly refreshes?: readonly DescMethodUnary[] | undefined;
  /** Announcement of the change; a plain sentence counts as success. Absent or undefined if the screen shows the change itself. */
  readonly done?: string | ((result: R) => string | Announcement | undefined) | undefined;
  readonly onDone?: ((result: R) => void) | undefined;
  /** Called with a fault. */
  readonly onFault?: ((error: Error) => void) | undefined;
  /** Announces a fault, for screens without a place to show it. */
  readonly announcesFault?: boolean;
}

/** Makes a change, announces it or its fault, and reads again the answers that it affects. `V` is the argument of `mutate`. */
export function useChange<R, V = void>(
  change: (call: Call, values: V) => Promise<R>,
  { refreshes = [], done, onDone, onFault, announcesFault = false }: ChangeOptions<R> = {},
): UseMutationResult<R, Error, V> {
  const transport = useTransport();
  const refresh = useRefresh();
  const announce = useAnnounce();
  const call: Call = (method, request) => callUnaryMethod(transport, method, request);
  return useMutation({
    mutationFn: (values: V) => change(call, values),
    // A change does not wait for the network: it would be made long after its person has gone.
    networkMode: "always",
    onSuccess(result) {
      const told = typeof done === "function" ? done(result) : done;
      if (told !== undefined) announce(typeof told === "string" ? { tone: "good", text: told } : told);
      onDone?.(result);
    },
    onError(error) {
      if (announcesFault) announce({ tone: "bad", text: faultText(error) });
      onFault?.(error);
    },
    onSettled: () => refresh(...refreshes),
  });
}
