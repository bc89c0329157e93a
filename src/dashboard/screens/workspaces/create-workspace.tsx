import { useSearchParams } from "wouter";
import { AdminService, type CreateWorkspaceResponse } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { NumberField, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { Secret } from "../../kit/secret.tsx";
import { DECISIONS } from "./settings-form.tsx";

const { createWorkspace, listWorkspaces } = AdminService.method;

const requestFrom = (values: FormValues) => ({
  workspaceId: values.text("workspace_id"),
  name: values.text("name"),
  defaultDecision: values.number("default_decision") as Decision,
  initialTrust: values.number("initial_trust"),
});

/** Creates a workspace and shows its first admin key once. */
export function CreateWorkspace({ onClose }: { readonly onClose: () => void }) {
  return (
    <ChangeDialog
      title="Create a workspace"
      action="submit-workspace"
      submit="Create"
      change={(call, values) => call(createWorkspace, requestFrom(values))}
      refreshes={[listWorkspaces]}
      after={(created) => <FirstKey created={created} onClose={onClose} />}
      onClose={onClose}
    >
      <TextField
        name="workspace_id"
        label="Id"
        hint="2 to 63 lower-case letters, digits and hyphens, starting with a letter. It stays."
      />
      <TextField name="name" label="Name" hint="Empty takes the id." />
      <SelectField
        name="default_decision"
        label="When no mandate matches"
        defaultValue={Decision.ALLOW}
        options={DECISIONS}
      />
      <NumberField name="initial_trust" label="Trust of a new agent" hint="0 to 100 in steps of 0.1. Empty: 50." />
      <p className="hint">Its admin sets everything else later.</p>
    </ChangeDialog>
  );
}

interface FirstKeyProps {
  readonly created: CreateWorkspaceResponse;
  readonly onClose: () => void;
}

/** Shows the first admin key of a workspace, then the workspace. */
function FirstKey({ created: { workspace, secret }, onClose }: FirstKeyProps) {
  const [, setParameters] = useSearchParams();
  const id = workspace?.workspaceId ?? "";
  const close = (): void => {
    setParameters({ open: id });
    onClose();
  };
  return (
    <Secret title={`The workspace ${id}`} what="its admin key" secret={secret} onClose={close}>
      <p>Nobody but the holder of this key gets into the workspace.</p>
    </Secret>
  );
}
