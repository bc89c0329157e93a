import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { Role } from "../../../../gen/agentcontrol/v1/access_pb.js";
import { AdminService } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentPicker } from "../../kit/agent-picker.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { DurationField, SelectField, type Suggestion, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { Secret } from "../../kit/secret.tsx";
import { shownText } from "../../kit/shown.tsx";

const { createApiKey, listApiKeys } = AdminService.method;
const KEYS = { pageSize: 200 };

const ROLES = [
  { value: Role.OPERATOR, title: "operator: agents, mandates, escalations; no keys" },
  { value: Role.AUDITOR, title: "auditor: reads everything, changes nothing" },
  { value: Role.AGENT, title: "agent: the program that acts" },
  { value: Role.ADMIN, title: "admin: everything" },
];

function requestFrom(values: FormValues) {
  const seconds = values.seconds("ttl_seconds");
  return {
    name: values.text("name"),
    role: values.number("role") as Role,
    agentId: values.optional("agent_id"),
    ttlSeconds: seconds === undefined ? undefined : BigInt(seconds),
    owner: values.optional("owner"),
  };
}

/** Returns the owners that the workspace's newest keys have. */
function useOwners(): readonly Suggestion[] {
  const { data } = useQuery(listApiKeys, KEYS);
  const owners = new Map((data?.keys ?? []).map(({ owner = "", ownerName = "" }) => [owner, ownerName]));
  owners.delete("");
  return [...owners].map(([value, title]) => ({ value, title }));
}

/** Creates a key and shows its secret once. */
export function CreateKey({ onClose }: { readonly onClose: () => void }) {
  const [role, setRole] = useState<Role>(Role.OPERATOR);
  return (
    <ChangeDialog
      title="Create a key"
      action="submit-key"
      submit="Create"
      change={(call, values) => call(createApiKey, requestFrom(values))}
      refreshes={[listApiKeys]}
      after={({ key, secret }) => (
        <Secret title={`The key ${shownText(key?.name ?? "", 60)}`} what="the key" secret={secret} onClose={onClose} />
      )}
      onClose={onClose}
    >
      <TextField name="name" label="Name" hint="Who or what holds it." />
      <SelectField
        name="role"
        label="Role"
        defaultValue={role}
        options={ROLES}
        onChange={(value) => setRole(Number(value) as Role)}
      />
      {role === Role.AGENT ? (
        <AgentPicker name="agent_id" label="Speaks for" none="every agent of the workspace" />
      ) : null}
      <TextField
        name="owner"
        label="Owner"
        hint="Person or label. Under four eyes, keys of one owner count as one, and a key without an owner counts as you."
        suggestions={useOwners()}
      />
      <DurationField name="ttl_seconds" label="Expires after" hint="Empty: as the workspace has it, else never." />
    </ChangeDialog>
  );
}
