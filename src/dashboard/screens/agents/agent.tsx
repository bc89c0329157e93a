import { useQuery } from "@connectrpc/connect-query";
import { Tabs } from "radix-ui";
import { useState } from "react";
import { Link, useSearchParams } from "wouter";
import {
  type Agent as AgentMessage,
  AgentService,
  AgentStatus,
} from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/agents.css";
import { AboutCard } from "./about-card.tsx";
import { StatusBadge } from "./agent-marks.tsx";
import { Authority } from "./authority.tsx";
import { RevocationOf } from "./revocation-of.tsx";
import { Revoke } from "./revoke.tsx";
import { Timeline } from "./timeline.tsx";
import { TrustCard } from "./trust-card.tsx";
import { type AgentWatch, useAgentWatch } from "./use-agent-watch.ts";

const { deactivateAgent, getAgent, listAgents } = AgentService.method;

/** Milliseconds between two reads of trust and decisions. Changes of the status arrive at once. */
const REFRESH_MS = 5_000;
const AUTHORITY = "authority";
const AGENTS: ScreenPlace = { title: "Agents", href: "/agents" };

/** One agent: its trust, authority and decisions, and the ways to take it out of service. */
export function Agent({ id = "" }: ScreenProps) {
  return <AgentOf key={id} agentId={id} />;
}

function AgentOf({ agentId }: { readonly agentId: string }) {
  const query = useQuery(getAgent, { agentId }, { refetchInterval: REFRESH_MS });
  const watch = useAgentWatch(agentId);
  const [revoked, setRevoked] = useState<string>();
  const found = query.data?.agent;
  if (found === undefined) {
    return (
      <ScreenFrame name="agent" title="Agent" within={AGENTS}>
        {query.isError ? (
          <Fault error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <Loading what="the agent" />
        )}
      </ScreenFrame>
    );
  }
  const isRevoked = revoked !== undefined || found.status === AgentStatus.REVOKED;
  // The watch is ahead of the query, unless it lost the connection.
  const status = (watch.isLive ? watch.status : undefined) ?? found.status;
  const agent = { ...found, status: isRevoked ? AgentStatus.REVOKED : status };
  const latest = query.data?.recentDecisions[0]?.decisionId;
  return (
    <ScreenFrame
      name="agent"
      title={shownText(agent.name, 200)}
      within={AGENTS}
      actions={<Actions agent={agent} onRevoked={setRevoked} />}
    >
      <Marks agent={agent} watch={watch} />
      {agent.status === AgentStatus.REVOKED ? <RevocationOf agentId={agentId} revocationId={revoked} /> : null}
      <div className="split">
        <TrustCard agentId={agentId} trust={agent.trustLevel} latest={latest} />
        <AboutCard agent={agent} />
      </div>
      <Parts agent={agent} latest={latest} />
    </ScreenFrame>
  );
}

function Marks({ agent: { agentId, status }, watch }: { readonly agent: AgentMessage; readonly watch: AgentWatch }) {
  return (
    <div className="row agent-marks">
      <span role="status" data-status>
        <span className="visually-hidden">status </span>
        <StatusBadge status={status} />
      </span>
      <code>{agentId}</code>
      <span className="hint">
        {watch.isLive || status === AgentStatus.REVOKED ? null : "connecting for changes of the status …"}
      </span>
    </div>
  );
}

interface ActionsProps {
  readonly agent: AgentMessage;
  readonly onRevoked: (revocationId: string) => void;
}

function Actions({ agent, onRevoked }: ActionsProps) {
  const mayChange = useMayChange();
  const incident = (
    <Link className="button" data-action="incident" href={`/incident?agent=${agent.agentId}`}>
      Incident
    </Link>
  );
  if (!mayChange || agent.status === AgentStatus.REVOKED) return incident;
  return (
    <>
      {incident}
      {agent.status === AgentStatus.ACTIVE ? <Deactivate agent={agent} /> : null}
      <Revoke agent={agent} onRevoked={onRevoked} />
    </>
  );
}

/** Deactivates an agent after confirmation. */
function Deactivate({ agent: { agentId, name } }: { readonly agent: AgentMessage }) {
  return (
    <DialogButton action="deactivate" label="Deactivate">
      {(close) => (
        <Confirm
          title="Deactivate the agent?"
          submit="Deactivate"
          change={(call) => call(deactivateAgent, { agentId })}
          refreshes={[getAgent, listAgents]}
          onClose={close}
        >
          <p>
            <strong>
              <Shown text={name} />
            </strong>
          </p>
          <p>
            Each later action of it is blocked, and it cannot be activated again. Authority that it lent to others
            stays; to end that too, revoke the agent.
          </p>
        </Confirm>
      )}
    </DialogButton>
  );
}

function Parts({ agent, latest }: { readonly agent: AgentMessage; readonly latest: string | undefined }) {
  const [parameters, setParameters] = useSearchParams();
  const tab = parameters.get("tab") === AUTHORITY ? AUTHORITY : "timeline";
  return (
    <Tabs.Root value={tab} onValueChange={(value) => setParameters(value === AUTHORITY ? { tab: value } : {})}>
      <Tabs.List className="tabs" aria-label="Timeline and authority">
        <Tabs.Trigger className="tab" value="timeline" data-action="tab-timeline">
          Timeline
        </Tabs.Trigger>
        <Tabs.Trigger className="tab" value={AUTHORITY} data-action="tab-authority">
          Authority
        </Tabs.Trigger>
      </Tabs.List>
      <Tabs.Content value="timeline" className="tab-page">
        <Timeline agentId={agent.agentId} latest={latest} />
      </Tabs.Content>
      <Tabs.Content value={AUTHORITY} className="tab-page">
        <Authority agent={agent} />
      </Tabs.Content>
    </Tabs.Root>
  );
}
