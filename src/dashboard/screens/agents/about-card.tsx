import { Link } from "wouter";
import { type Agent, AgentRequirement } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { WordList } from "../../kit/lists/word-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { useDepartmentNames } from "./use-departments.ts";

const REQUIREMENTS: Readonly<Record<number, string>> = {
  [AgentRequirement.SESSION]: "a session",
  [AgentRequirement.PROMPT]: "a session with a prompt",
  [AgentRequirement.CONTRACT]: "an intent contract",
};

/** Description of an agent, with its capabilities and own permissions. */
export function AboutCard({ agent }: { readonly agent: Agent }) {
  const { framework, description, capabilities, permissions, requires, registeredAt, deactivatedAt, lastActionAt } =
    agent;
  return (
    <section className="card stack" aria-label="About the agent">
      <h2>Permissions and departments</h2>
      {description === "" ? null : (
        <p className="agent-description">
          <Shown text={description} />
        </p>
      )}
      <dl className="facts">
        <dt>May</dt>
        <dd>
          <WordList words={permissions?.allowedActionTypes ?? []} none={mayText(capabilities)} />
        </dd>
        <dt>May never</dt>
        <dd>
          <WordList words={permissions?.deniedActionTypes ?? []} none="nothing is denied" />
        </dd>
        <dt>Capabilities</dt>
        <dd>
          <WordList words={capabilities} none="none named" />
        </dd>
        {requires.length === 0 ? null : (
          <>
            <dt>Every action needs</dt>
            <dd>
              <WordList words={requires.flatMap((each) => REQUIREMENTS[each] ?? [])} none="nothing" />
            </dd>
          </>
        )}
        <dt>Departments</dt>
        <dd>
          <DepartmentLinks departmentIds={agent.departmentIds} />
        </dd>
        {framework === "" ? null : (
          <>
            <dt>Framework</dt>
            <dd>
              <Shown text={framework} />
            </dd>
          </>
        )}
        <dt>Last action</dt>
        <dd>
          <Time at={lastActionAt} />
        </dd>
        <dt>Registered</dt>
        <dd>
          <Time at={registeredAt} />
        </dd>
        {deactivatedAt === undefined ? null : (
          <>
            <dt>Out of service</dt>
            <dd>
              <Time at={deactivatedAt} />
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

const mayText = (capabilities: readonly string[]): string =>
  capabilities.length === 0 ? "every action type" : "what its capabilities name";

const MAX_LINKS = 20;

function DepartmentLinks({ departmentIds }: { readonly departmentIds: readonly string[] }) {
  const nameOf = useDepartmentNames();
  if (departmentIds.length === 0) return <span className="hint">none</span>;
  return (
    <ul className="words">
      {departmentIds.slice(0, MAX_LINKS).map((departmentId) => (
        <li key={departmentId} className="word">
          <Link href={`/agents?tab=departments&open=${departmentId}`}>
            <Shown text={nameOf(departmentId)} />
          </Link>
        </li>
      ))}
      {departmentIds.length > MAX_LINKS ? <li>and {departmentIds.length - MAX_LINKS} more</li> : null}
    </ul>
  );
}
