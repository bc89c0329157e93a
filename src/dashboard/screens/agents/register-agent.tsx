import { useLocation } from "wouter";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { AreaField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { shownText } from "../../kit/shown.tsx";

const { registerAgent, listAgents } = AgentService.method;

const requestFrom = (values: FormValues) => ({
  name: values.text("name"),
  framework: values.text("framework"),
  description: values.text("description"),
  capabilities: values.lines("capabilities"),
  permissions: {
    allowedActionTypes: values.lines("permissions.allowed_action_types"),
    deniedActionTypes: values.lines("permissions.denied_action_types"),
  },
});

const PATTERNS = "One a line, exact or with * at the end: payment.*";

/** Registers an agent, then shows it. */
export function RegisterAgent({ onClose }: { readonly onClose: () => void }) {
  const [, navigate] = useLocation();
  return (
    <ChangeDialog
      title="Register an agent"
      action="submit-register"
      submit="Register"
      change={(call, values) => call(registerAgent, requestFrom(values))}
      refreshes={[listAgents]}
      done={({ agent }) => `Registered ${shownText(agent?.name ?? "")}.`}
      onDone={({ agent }) => navigate(`/agents/${agent?.agentId ?? ""}`)}
      onClose={onClose}
    >
      <TextField name="name" label="Name" />
      <TextField name="framework" label="Framework" hint="What it runs on: langgraph, crewai. Optional." />
      <AreaField name="description" label="Description" hint="What it is for. Optional." />
      <AreaField
        name="capabilities"
        label="Capabilities"
        hint="Action types it can perform, one a line. Empty admits every type."
      />
      <AreaField name="permissions.allowed_action_types" label="Allowed action types" hint={PATTERNS} />
      <AreaField
        name="permissions.denied_action_types"
        label="Denied action types"
        hint="Never performed, whatever admits them. One a line."
      />
    </ChangeDialog>
  );
}
