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
import { followStream } from "../../../client/follow-stream.ts";
import { useRefresh } from "../../kit/use-refresh.ts";

/** Watched state of an agent. */
export interface AgentWatch {
  /** Undefined until the first message of the watch. */
  readonly status: AgentStatus | undefined;
  readonly isLive: boolean;
}

const STATUSES: Readonly<Record<number, AgentStatus>> = {
  [AgentChange.ACTIVE]: AgentStatus.ACTIVE,
  [AgentChange.DEACTIVATED]: AgentStatus.DEACTIVATED,
  [AgentChange.REVOKED]: AgentStatus.REVOKED,
};
const PAUSES = { firstMs: 500, maxMs: 15_000 };
/** Faults that a further attempt cannot cure. */
const FINAL: ReadonlySet<Code> = new Set([Code.NotFound, Code.PermissionDenied, Code.Unauthenticated]);
const NOT_LIVE: AgentWatch = { status: undefined, isLive: false };

/** Follows an agent's status. Reads the screen's data again when the status changes or a session is killed. */
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
    const lose = (): void => setWatch({ status: last, isLive: false });
    // Rejects only with a fault that a further attempt cannot cure.
    follow(client, agentId, abort.signal, hear, lose).catch(() => undefined);
    return () => {
      abort.abort();
      setWatch(NOT_LIVE);
    };
  }, [agentId, transport, refresh]);
  return watch;
}

/** Watches until the agent is revoked, a fault is final or the signal aborts. */
async function follow(
  client: Client<typeof AgentService>,
  agentId: string,
  signal: AbortSignal,
  hear: (message: WatchAgentResponse) => void,
  lose: () => void,
): Promise<void> {
  while (!signal.aborted) {
    // A hidden tab gives up its connection: browsers allow six per host.
    await untilVisible(signal);
    const messages = followStream({
      open: (ending) => client.watchAgent({ agentId }, { signal: ending, timeoutMs: 0 }),
      signal: hiddenSignal(signal),
      pauses: PAUSES,
      onLost: (fault) => {
        lose();
        if (fault !== undefined && FINAL.has(ConnectError.from(fault).code)) throw fault;
      },
    });
    for await (const message of messages) {
      if (signal.aborted) return;
      hear(message);
      if (message.change === AgentChange.REVOKED) return;
    }
    if (!signal.aborted) lose();
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

/** Returns a signal that also aborts when the tab is hidden. */
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
