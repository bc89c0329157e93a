import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useEffect, useState } from "react";
import {
  AgentChange,
  AgentService,
  AgentStatus,
  type WatchAgentResponse,
} from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityService } from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { useRefresh } from "../../kit/use-refresh.ts";

/** What is known of an agent at once. */
export interface AgentWatch {
  /** Undefined until the service told it. */
  readonly status: AgentStatus | undefined;
  readonly isLive: boolean;
}

const STATUSES: Readonly<Record<number, AgentStatus>> = {
  [AgentChange.ACTIVE]: AgentStatus.ACTIVE,
  [AgentChange.DEACTIVATED]: AgentStatus.DEACTIVATED,
  [AgentChange.REVOKED]: AgentStatus.REVOKED,
};
const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 15_000;
/** Faults that no other attempt cures. */
const FINAL: ReadonlySet<Code> = new Set([Code.NotFound, Code.PermissionDenied, Code.Unauthenticated]);
const NOT_LIVE: AgentWatch = { status: undefined, isLive: false };

/** Follows an agent's status. What the screen read is read again when the status changes or a session is killed. */
export function useAgentWatch(agentId: string): AgentWatch {
  const transport = useTransport();
  const refresh = useRefresh();
  const [watch, setWatch] = useState(NOT_LIVE);
  useEffect(() => {
    const abort = new AbortController();
    let last: AgentStatus | undefined;
    const hear = ({ change }: WatchAgentResponse): void => {
      const status = STATUSES[change] ?? last;
      const isNew = (last !== undefined && status !== last) || change === AgentChange.KILLED;
      last = status;
      setWatch({ status, isLive: true });
      if (!isNew) return;
      const { listSessions, listCredentials, listGrants, listTemporalWindows } = AuthorityService.method;
      const { listIntentContracts, listFederationTokens, listMcpToolPolicies } = AuthorityService.method;
      refresh(AgentService.method.getAgent, AgentService.method.listAgents, listSessions, listCredentials, listGrants);
      refresh(listTemporalWindows, listIntentContracts, listFederationTokens, listMcpToolPolicies);
    };
    const client = createClient(AgentService, transport);
    void follow(client, agentId, abort.signal, hear, () => setWatch({ status: last, isLive: false }));
    return () => {
      abort.abort();
      setWatch(NOT_LIVE);
    };
  }, [agentId, transport, refresh]);
  return watch;
}

/** Watches until the agent is revoked or nobody looks, and connects again after faults. */
async function follow(
  client: Client<typeof AgentService>,
  agentId: string,
  signal: AbortSignal,
  hear: (message: WatchAgentResponse) => void,
  lose: () => void,
): Promise<void> {
  let waitMs = FIRST_WAIT_MS;
  while (!signal.aborted) {
    // A tab that nobody sees gives its connection back: browsers have six for a host.
    await untilVisible(signal);
    const hidden = hiddenSignal(signal);
    try {
      for await (const message of client.watchAgent({ agentId }, { signal: hidden })) {
        if (signal.aborted) return;
        waitMs = FIRST_WAIT_MS;
        hear(message);
        if (message.change === AgentChange.REVOKED) return;
      }
    } catch (error) {
      if (signal.aborted || FINAL.has(ConnectError.from(error).code)) return;
    }
    lose();
    if (document.hidden) continue;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    waitMs = Math.min(waitMs * 2, MAX_WAIT_MS);
  }
}

function untilVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const check = (): void => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
    check();
  });
}

/** Returns a signal that also ends a call when the tab is hidden. */
function hiddenSignal(signal: AbortSignal): AbortSignal {
  const hidden = new AbortController();
  const check = (): void => {
    if (!document.hidden) return;
    document.removeEventListener("visibilitychange", check);
    hidden.abort();
  };
  document.addEventListener("visibilitychange", check);
  signal.addEventListener("abort", () => document.removeEventListener("visibilitychange", check), { once: true });
  return AbortSignal.any([signal, hidden.signal]);
}
