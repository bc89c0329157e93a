import type { MessageInitShape } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { AdminService } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import {
  type ApproverGroup,
  ApproverGroupService,
  type OidcGroupSchema,
} from "../../../../gen/agentcontrol/v1/approver_group_service_pb.js";
import { requestErrorFrom } from "../../../client/request-error.ts";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { AreaField, FieldError, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { shownText } from "../../kit/shown.tsx";
import { PeopleField, peopleFrom } from "./people-field.tsx";

const { getApproverGroup, listApproverGroups, putApproverGroup } = ApproverGroupService.method;
const PEOPLE = { pageSize: 500 };

/** Properties of the dialog. */
export interface GroupDialogProps {
  /** The group that is changed; undefined for a new one. */
  readonly group: ApproverGroup | undefined;
  /** Called with the name of the group once it was put. */
  readonly onDone?: (name: string) => void;
  readonly onClose: () => void;
}

/** Creates a group, or changes who is in it. */
export function GroupDialog({ group, onDone, onClose }: GroupDialogProps) {
  const { data } = useQuery(AdminService.method.listPeople, PEOPLE);
  const people = data?.people ?? [];
  const isNew = group === undefined;
  return (
    <ChangeDialog
      title={isNew ? "Create a group" : `Edit ${shownText(group.name, 63)}`}
      action="submit-group"
      submit={isNew ? "Create" : "Save"}
      isWide
      change={async (call, values) => {
        const name = group?.name ?? values.text("name");
        // A put of a name that is there would replace its members.
        if (isNew && (await exists(call(getApproverGroup, { name })))) {
          throw new FieldError("name", "is taken by another group; choose another name, or edit that group");
        }
        return call(putApproverGroup, {
          name,
          description: values.text("description"),
          members: peopleFrom(values, "members"),
          oidcGroups: oidcGroupsFrom(values),
          deputies: peopleFrom(values, "deputies"),
        });
      }}
      refreshes={[getApproverGroup, listApproverGroups]}
      done={isNew ? "Created the group." : "Saved. It holds for the next answer."}
      onDone={({ approverGroup }) => onDone?.(approverGroup?.name ?? "")}
      onClose={onClose}
    >
      {isNew ? (
        <TextField name="name" label="Name" hint="a to z, 0 to 9, dot, dash and underscore; rules name it." />
      ) : null}
      <TextField name="description" label="Purpose" defaultValue={group?.description} />
      <PeopleField name="members" label="Members" people={people} group={group} first={group?.members ?? []} />
      <AreaField
        name="oidc_groups"
        label="Groups of an identity provider"
        hint="One a line: the issuer, a space, and the group, as in https://id.example finance-team."
        defaultValue={group?.oidcGroups.map((each) => `${each.issuer} ${each.group}`).join("\n")}
      />
      <PeopleField
        name="deputies"
        label="Deputies"
        hint="They count from the reminder of an escalation on."
        people={people}
        group={group}
        first={group?.deputies ?? []}
      />
    </ChangeDialog>
  );
}

/** Waits for the read of a group. False if there is none of its name; any other fault is thrown. */
async function exists(read: Promise<unknown>): Promise<boolean> {
  try {
    await read;
    return true;
  } catch (error) {
    if (error instanceof ConnectError && requestErrorFrom(error).reason === "APPROVER_GROUP_NOT_FOUND") return false;
    throw error;
  }
}

/** Reads groups of identity providers, one a line. Throws `FieldError` for a line that is not an issuer and a group. */
function oidcGroupsFrom(values: FormValues): MessageInitShape<typeof OidcGroupSchema>[] {
  return values.lines("oidc_groups").map((line, index) => {
    const [, issuer, group] = /^(https?:\/\/\S+)\s+(.+)$/.exec(line) ?? [];
    if (issuer === undefined || group === undefined) {
      throw new FieldError(
        `oidc_groups[${index}]`,
        "must be an issuer that begins with https://, a space, and a group",
      );
    }
    return { issuer, group };
  });
}
