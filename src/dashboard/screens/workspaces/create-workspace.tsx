import { useMutation } from "@connectrpc/connect-query";
import { useSearchParams } from "wouter";
import { AdminService } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { FormDialog, NumberField, SelectField, TextField } from "../../kit/form.tsx";
import { Secret } from "../../kit/secret.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { DECISIONS } from "./settings-form.tsx";

/** Creates a workspace, and shows its first admin key once. */
export function CreateWorkspace({ onClose }: { readonly onClose: () => void }) {
  const [, setParameters] = useSearchParams();
  const refresh = useRefresh();
  const { mutate, isPending, error, data } = useMutation(AdminService.method.createWorkspace, {
    onSuccess: () => refresh(AdminService.method.listWorkspaces),
  });
  if (data !== undefined) {
    const id = data.workspace?.workspaceId ?? "";
    const close = (): void => {
      setParameters({ open: id });
      onClose();
    };
    return (
      <Secret title={`The workspace ${id}`} what="its admin key" secret={data.secret} onClose={close}>
        <p>Nobody but the holder of this key gets into the workspace.</p>
      </Secret>
    );
  }
  return (
    <FormDialog
      title="Create a workspace"
      action="submit-workspace"
      submit="Create"
      isBusy={isPending}
      error={error}
      onSubmit={(values) =>
        mutate({
          ...{ workspaceId: values.text("workspace_id"), name: values.text("name") },
          defaultDecision: values.number("default_decision") as Decision,
          initialTrust: values.number("initial_trust"),
        })
      }
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
    </FormDialog>
  );
}
