import { ConnectError } from "@connectrpc/connect";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { useCallback } from "react";
import {
  type Escalation,
  EscalationService,
  EscalationStatus,
  Resolution,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { requestErrorFrom } from "../../../client/request-error.ts";
import { faultText } from "../../kit/states.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useEscalationFeed } from "../../live/use-escalations.tsx";
import { whoText } from "./outcome.tsx";

/** Answer of a person to an escalation. */
export interface Resolving {
  readonly escalationId: string;
  readonly resolution: Resolution;
  readonly note?: string;
}

/** Returns the function that resolves an escalation. Its promise gives the fault in a sentence, or null. */
export function useResolve(): (resolving: Resolving) => Promise<string | null> {
  const transport = useTransport();
  const feed = useEscalationFeed();
  const announce = useAnnounce();
  return useCallback(
    async (resolving) => {
      const { getEscalation, resolveEscalation } = EscalationService.method;
      try {
        const { escalation } = await callUnaryMethod(transport, resolveEscalation, resolving);
        feed.take(escalation);
        return null;
      } catch (error) {
        if (!(error instanceof ConnectError) || requestErrorFrom(error).reason !== "ESCALATION_RESOLVED")
          return faultText(error);
        const { escalationId } = resolving;
        const { escalation } = await callUnaryMethod(transport, getEscalation, { escalationId }).catch(() => ({
          escalation: undefined,
        }));
        feed.take(escalation);
        if (escalation === undefined) return faultText(error);
        // The card shows the outcome now, without the buttons where faults are shown.
        announce({ tone: "bad", text: firstText(escalation) });
        return firstText(escalation);
      }
    },
    [transport, feed, announce],
  );
}

/** Names the person who resolved it first. */
function firstText(escalation: Escalation): string {
  const done = escalation.status === EscalationStatus.APPROVED ? "approved" : "rejected";
  return `It was ${done} before you: ${whoText(escalation)}.`;
}

/** Fault of one escalation of a batch. */
export interface ResolveFault {
  readonly id: string;
  readonly fault: string;
}

/** Returns the function that resolves several escalations, announces their number, and returns the faults. */
export function useResolveAll(): (
  ids: readonly string[],
  resolving: Omit<Resolving, "escalationId">,
) => Promise<readonly ResolveFault[]> {
  const resolve = useResolve();
  const announce = useAnnounce();
  return useCallback(
    async (ids, resolving) => {
      const faults: ResolveFault[] = [];
      let next = 0;
      const work = async (): Promise<void> => {
        while (next < ids.length) {
          const id = ids[next++] as string;
          const fault = await resolve({ ...resolving, escalationId: id });
          if (fault !== null) faults.push({ id, fault });
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      const count = ids.length - faults.length;
      const done = resolving.resolution === Resolution.APPROVED ? "Approved" : "Rejected";
      announce({ tone: faults.length === 0 ? "good" : "bad", text: `${done} ${count} of ${ids.length}.` });
      return faults;
    },
    [resolve, announce],
  );
}

/** Maximum number of calls of a batch in flight. */
const AT_ONCE = 6;
