import { useMutation } from "@connectrpc/connect-query";
import { useLocation } from "wouter";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { AreaField, FormDialog, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { shownText } from "../../kit/shown.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";

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

/** Registers an agent, and shows it. */
export function RegisterAgent({ onClose }: { readonly onClose: () => void }) {
  const [, navigate] = useLocation();
  const announce = useAnnounce();
  const refresh = useRefresh();
  const { mutate, isPending, error } = useMutation(AgentService.method.registerAgent, {
    onSuccess({ agent }) {
      refresh(AgentService.method.listAgents);
      announce({ tone: "good", text: `Registered ${shownText(agent?.name ?? "")}.` });
      onClose();
      navigate(`/agents/${agent?.agentId ?? ""}`);
    },
  });
  return (
    <FormDialog
      title="Register an agent"
      action="submit-register"
      submit="Register"
      isBusy={isPending}
      error={error}
      onSubmit={(values) => mutate(requestFrom(values))}
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
    </FormDialog>
  );
}
