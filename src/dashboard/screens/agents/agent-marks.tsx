import { AgentStatus } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Badge, type Tone } from "../../kit/badge.tsx";

const STATUSES: Readonly<Record<number, readonly [Tone, string]>> = {
  [AgentStatus.ACTIVE]: ["good", "active"],
  [AgentStatus.DEACTIVATED]: ["wait", "deactivated"],
  [AgentStatus.REVOKED]: ["bad", "revoked"],
};

/** Status of an agent. */
export function StatusBadge({ status }: { readonly status: AgentStatus }) {
  const [tone, word] = STATUSES[status] ?? ["plain", "unknown"];
  return <Badge tone={tone}>{word}</Badge>;
}

const LOW = 20;

/** Trust of an agent, 0 to 100, as a bar and a number. */
export function TrustBar({ trust }: { readonly trust: number }) {
  return (
    <span className="trust">
      <span className={trust < LOW ? "bar is-full" : "bar"} aria-hidden>
        <span style={{ width: `${trust}%` }} />
      </span>
      <span className="trust-number">
        <span className="visually-hidden">trust </span>
        {trust.toFixed(1)}
      </span>
    </span>
  );
}
