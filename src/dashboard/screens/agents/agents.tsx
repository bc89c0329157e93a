import { Tabs } from "radix-ui";
import { useState } from "react";
import { useSearchParams } from "wouter";
import { Button } from "../../kit/button.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/agents.css";
import { AgentTable } from "./agent-table.tsx";
import { CreateDepartment } from "./create-department.tsx";
import { Departments } from "./departments.tsx";
import { RegisterAgent } from "./register-agent.tsx";

const DEPARTMENTS = "departments";

/** Agents of the workspace, with its departments in a second tab. */
export function Agents() {
  const [parameters, setParameters] = useSearchParams();
  const tab = parameters.get("tab") === DEPARTMENTS ? DEPARTMENTS : "agents";
  return (
    <ScreenFrame name="agents" title="Agents" actions={<Actions tab={tab} />}>
      <Tabs.Root value={tab} onValueChange={(value) => setParameters(value === DEPARTMENTS ? { tab: value } : {})}>
        <Tabs.List className="tabs" aria-label="Agents and departments">
          <Tabs.Trigger className="tab" value="agents" data-action="tab-agents">
            Agents
          </Tabs.Trigger>
          <Tabs.Trigger className="tab" value={DEPARTMENTS} data-action="tab-departments">
            Departments
          </Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value="agents" className="tab-page">
          <AgentTable />
        </Tabs.Content>
        <Tabs.Content value={DEPARTMENTS} className="tab-page">
          <Departments />
        </Tabs.Content>
      </Tabs.Root>
    </ScreenFrame>
  );
}

function Actions({ tab }: { readonly tab: string }) {
  const [isOpen, setIsOpen] = useState(false);
  const close = (): void => setIsOpen(false);
  if (!useMayChange()) return null;
  if (tab === DEPARTMENTS) {
    return (
      <>
        <Button action="create-department" tone="primary" onClick={() => setIsOpen(true)}>
          Create a department
        </Button>
        {isOpen ? <CreateDepartment onClose={close} /> : null}
      </>
    );
  }
  return (
    <>
      <Button action="register" tone="primary" onClick={() => setIsOpen(true)}>
        Register an agent
      </Button>
      {isOpen ? <RegisterAgent onClose={close} /> : null}
    </>
  );
}
