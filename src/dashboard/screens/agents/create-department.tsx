import { useSearchParams } from "wouter";
import { DepartmentService } from "../../../../gen/agentcontrol/v1/department_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { AreaField, TextField } from "../../kit/form.tsx";

const { createDepartment, listDepartments } = DepartmentService.method;

/** Creates a department, then shows it. */
export function CreateDepartment({ onClose }: { readonly onClose: () => void }) {
  const [, setParameters] = useSearchParams();
  return (
    <ChangeDialog
      title="Create a department"
      action="submit-department"
      submit="Create"
      change={(call, values) =>
        call(createDepartment, { name: values.text("name"), description: values.text("description") })
      }
      refreshes={[listDepartments]}
      onDone={({ department }) => setParameters({ tab: "departments", open: department?.departmentId ?? "" })}
      onClose={onClose}
    >
      <TextField name="name" label="Name" hint="Unique in the workspace." />
      <AreaField name="description" label="Description" hint="What it is for. Optional." />
    </ChangeDialog>
  );
}
