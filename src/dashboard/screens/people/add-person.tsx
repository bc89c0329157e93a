import { useLocation } from "wouter";
import { Role } from "../../../../gen/agentcontrol/v1/access_pb.js";
import { AdminService } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { SelectField, TextField } from "../../kit/form.tsx";
import { PERSON_ROLES } from "./person-words.ts";

const { createPerson, listPeople } = AdminService.method;

/** Adds a person, and opens their page. */
export function AddPerson({ onClose }: { readonly onClose: () => void }) {
  const [, navigate] = useLocation();
  return (
    <ChangeDialog
      title="Add a person"
      action="submit-person"
      submit="Add"
      change={(call, values) =>
        call(createPerson, {
          name: values.text("name"),
          role: values.number("role") as Role,
          issuer: values.optional("issuer"),
          subject: values.optional("subject"),
        })
      }
      refreshes={[listPeople]}
      done="Added the person."
      onDone={({ person }) => {
        if (person !== undefined) navigate(`/people/${person.personId}`);
      }}
      onClose={onClose}
    >
      <TextField name="name" label="Name" hint="Beside what they do. It is never sealed in the log." />
      <SelectField name="role" label="Role" defaultValue={Role.OPERATOR} options={PERSON_ROLES} />
      <TextField
        name="issuer"
        label="Issuer"
        hint="Address of the sign-in service, if the person signs in by it. Empty: the person has keys alone."
      />
      <TextField
        name="subject"
        label="Subject"
        hint="Id of the person there, the claim sub. An email address is none."
      />
    </ChangeDialog>
  );
}
