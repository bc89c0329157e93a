import { Link, useSearchParams } from "wouter";
import { type Agent, AgentStatus } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { AgentPicker } from "../../kit/agent-picker.tsx";
import { Button } from "../../kit/button.tsx";
import { Form } from "../../kit/form.tsx";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useMayChange } from "../../session.ts";
import { StatusBadge } from "../agents/agent-marks.tsx";
import { AuthorityGraph } from "./authority-graph.tsx";
import { LastActions } from "./last-actions.tsx";
import { RevokeSeveral } from "./revoke-several.tsx";
import { MAX_SUSPECTS, useSuspects } from "./use-suspects.ts";
import "../../styles/agents.css";
import "../../styles/incident.css";

const AGENTS: ScreenPlace = { title: "Agents", href: "/agents" };

/** Agents that are under suspicion: their last actions, who else loses authority with them, and their revocation together. */
export function Incident() {
  const [parameters, setParameters] = useSearchParams();
  const agentIds = [...new Set(parameters.getAll("agent"))].slice(0, MAX_SUSPECTS);
  const departmentId = parameters.get("department") ?? "";
  const { agents, error, isPending, hasMore } = useSuspects(agentIds, departmentId);
  const mayChange = useMayChange();
  const change = (edit: (ids: readonly string[]) => readonly string[]): void =>
    setParameters((before) => {
      const next = new URLSearchParams(before);
      next.delete("agent");
      for (const id of edit(before.getAll("agent"))) next.append("agent", id);
      return next;
    });
  const add = (agentId: string): void => change((ids) => (ids.includes(agentId) ? ids : [...ids, agentId]));
  return (
    <ScreenFrame
      name="incident"
      title="Incident"
      within={AGENTS}
      actions={mayChange ? <RevokeSeveral agents={agents} /> : null}
    >
      {error === null ? null : <Fault error={error} />}
      {hasMore ? <p className="fault">More than {MAX_SUSPECTS} agents: revoke these first, then the others.</p> : null}
      <section className="card stack" aria-labelledby="suspects-title">
        <h2 id="suspects-title">Agents</h2>
        {isPending ? <Loading what="the agents" /> : null}
        {!isPending && agents.length === 0 ? <Empty title="No agent yet">Add the first one.</Empty> : null}
        <ul className="suspects">
          {agents.map((agent) => (
            <Suspect
              key={agent.agentId}
              agent={agent}
              onRemove={
                agentIds.includes(agent.agentId)
                  ? () => change((ids) => ids.filter((id) => id !== agent.agentId))
                  : undefined
              }
            />
          ))}
        </ul>
        <AddSuspect onAdd={add} />
      </section>
      {agents.length === 0 ? null : (
        <>
          <section className="card stack" aria-labelledby="lending-title">
            <h2 id="lending-title">Who loses authority</h2>
            <AuthorityGraph agents={agents} />
          </section>
          <section className="stack" aria-labelledby="actions-title">
            <h2 id="actions-title">Last actions</h2>
            <LastActions agents={agents} />
          </section>
        </>
      )}
    </ScreenFrame>
  );
}

interface SuspectProps {
  readonly agent: Agent;
  /** Absent for a member of the department in the address. */
  readonly onRemove: (() => void) | undefined;
}

function Suspect({ agent: { agentId, name, status, lastActionAt }, onRemove }: SuspectProps) {
  return (
    <li className="row is-apart" data-id={agentId}>
      <span>
        <Link href={`/agents/${agentId}`}>
          <Shown text={name} />
        </Link>{" "}
        <StatusBadge status={status} />
        {status === AgentStatus.REVOKED ? <Link href={`/agents/${agentId}`}> certificate</Link> : null}
        {lastActionAt === undefined ? null : (
          <span className="hint">
            {" "}
            last acted <Time at={lastActionAt} />
          </span>
        )}
      </span>
      {onRemove === undefined ? null : (
        <Button action="remove-suspect" aria-label={`Leave out ${shownText(name)}`} onClick={onRemove}>
          Leave out
        </Button>
      )}
    </li>
  );
}

function AddSuspect({ onAdd }: { readonly onAdd: (agentId: string) => void }) {
  return (
    <Form
      action="add-suspect"
      submit="Add the agent"
      isBusy={false}
      error={null}
      onSubmit={(values) => {
        const agentId = values.text("agent_id");
        if (agentId !== "") onAdd(agentId);
      }}
    >
      <AgentPicker name="agent_id" label="Another agent" />
    </Form>
  );
}
