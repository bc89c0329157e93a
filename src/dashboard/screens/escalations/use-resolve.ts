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

const { getEscalation, resolveEscalation, withdrawApproval } = EscalationService.method;

/** Answer of a person to an escalation. */
export interface Resolving {
  readonly escalationId: string;
  readonly resolution: Resolution;
  readonly note?: string;
}

/** Reasons of a refusal by a state of the escalation that this page has not been told yet. */
const OVERTAKEN: readonly string[] = ["ESCALATION_RESOLVED", "NOT_AN_APPROVER", "FOUR_EYES"];

type Answered = { readonly escalation?: Escalation | undefined };

/**
 * Returns the function that answers an escalation by a call. Its promise gives the fault in a sentence, or null. After a refusal by the
 * state of the escalation, that is read and shown.
 */
function useAnswer(): (escalationId: string, call: () => Promise<Answered>) => Promise<string | null> {
  const feed = useEscalationFeed();
  const announce = useAnnounce();
  const read = useReadAgain();
  return useCallback(
    async (escalationId, call) => {
      const take = feed.answerTo(escalationId);
      try {
        const { escalation } = await call();
        take(escalation);
        return null;
      } catch (error) {
        const reason = error instanceof ConnectError ? requestErrorFrom(error).reason : null;
        if (reason === null || !OVERTAKEN.includes(reason)) return faultText(error);
        const escalation = await read(escalationId);
        if (escalation === undefined || reason !== "ESCALATION_RESOLVED") return faultText(error);
        // The card shows the outcome now, without the buttons where faults are shown.
        announce({ tone: "bad", text: firstText(escalation) });
        return firstText(escalation);
      }
    },
    [feed, announce, read],
  );
}

/** Returns the function that reads an escalation and shows what it has become; undefined if it cannot be read. */
export function useReadAgain(): (escalationId: string) => Promise<Escalation | undefined> {
  const transport = useTransport();
  const feed = useEscalationFeed();
  return useCallback(
    async (escalationId) => {
      const take = feed.answerTo(escalationId);
      const read = callUnaryMethod(transport, getEscalation, { escalationId });
      const { escalation } = await read.catch((): Answered => ({}));
      take(escalation);
      return escalation;
    },
    [transport, feed],
  );
}

/** Returns the function that resolves an escalation, or adds an approval of several. Its promise gives the fault in a sentence, or null. */
export function useResolve(): (resolving: Resolving) => Promise<string | null> {
  const transport = useTransport();
  const answer = useAnswer();
  return useCallback(
    (resolving) => answer(resolving.escalationId, () => callUnaryMethod(transport, resolveEscalation, resolving)),
    [transport, answer],
  );
}

/** Returns the function that takes the person's approval back. Its promise gives the fault in a sentence, or null. */
export function useWithdrawApproval(): (escalationId: string) => Promise<string | null> {
  const transport = useTransport();
  const answer = useAnswer();
  return useCallback(
    (escalationId) => answer(escalationId, () => callUnaryMethod(transport, withdrawApproval, { escalationId })),
    [transport, answer],
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
