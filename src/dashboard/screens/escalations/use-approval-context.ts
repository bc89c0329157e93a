import { useQuery } from "@connectrpc/connect-query";
import { createContext, useContext, useEffect, useState } from "react";
import {
  type EarlierAnswers,
  EscalationService,
  type UsualNumber,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";

const STALE_MS = 60_000;

/** Reads what an escalation compares with, once `isOn`. */
export function useApprovalContext(escalationId: string, isOn: boolean) {
  return useQuery(
    EscalationService.method.getEscalationContext,
    { escalationId },
    { enabled: isOn, staleTime: STALE_MS },
  );
}

/** Past of the arguments of an escalation, by their paths. */
export interface ArgumentPast {
  readonly usual: ReadonlyMap<string, UsualNumber>;
  /** Number of allowed actions that `usual` comes from. */
  readonly usualFrom: number;
  /** Several for the texts of a list. */
  readonly earlier: ReadonlyMap<string, readonly EarlierAnswers[]>;
}

const PastContext = createContext<ArgumentPast | undefined>(undefined);

/** Gives the past of the arguments to their rows. */
export const PastProvider = PastContext.Provider;

/** Returns the past of the arguments; undefined until it was read. */
export const useArgumentPast = (): ArgumentPast | undefined => useContext(PastContext);

/** Returns true once an escalation has been shown for some time, so that those merely passed by read nothing. */
export function useSettled(escalationId: string, ms: number): boolean {
  const [settled, setSettled] = useState(ms === 0 ? escalationId : undefined);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(escalationId), ms);
    return () => clearTimeout(timer);
  }, [escalationId, ms]);
  return settled === escalationId;
}
