import { useMutation } from "@connectrpc/connect-query";
import { useSearchParams } from "wouter";
import { DepartmentService } from "../../../../gen/agentcontrol/v1/department_service_pb.js";
import { AreaField, FormDialog, TextField } from "../../kit/form.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";

/** Creates a department, and shows it. */
export function CreateDepartment({ onClose }: { readonly onClose: () => void }) {
  const [, setParameters] = useSearchParams();
  const refresh = useRefresh();
  const { mutate, isPending, error } = useMutation(DepartmentService.method.createDepartment, {
    onSuccess({ department }) {
      refresh(DepartmentService.method.listDepartments);
      onClose();
      setParameters({ tab: "departments", open: department?.departmentId ?? "" });
    },
  });
  return (
    <FormDialog
      title="Create a department"
      action="submit-department"
      submit="Create"
      isBusy={isPending}
      error={error}
      onSubmit={(values) => mutate({ name: values.text("name"), description: values.text("description") })}
      onClose={onClose}
    >
      <TextField name="name" label="Name" hint="Unique in the workspace." />
      <AreaField name="description" label="Description" hint="What it is for. Optional." />
    </FormDialog>
  );
}
