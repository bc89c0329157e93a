import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Link, useLocation } from "wouter";
import {
  type ApproverGroup,
  ApproverGroupService,
  type ListApproverGroupsResponse,
} from "../../../../gen/agentcontrol/v1/approver_group_service_pb.js";
import { DialogButton } from "../../kit/dialog.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useSession } from "../../session.ts";
import "../../styles/approver-groups.css";
import { SETTINGS } from "../settings/place.ts";
import { GroupDialog } from "./group-dialog.tsx";
import { GroupView } from "./group-view.tsx";

const { listApproverGroups } = ApproverGroupService.method;
const REQUEST = { pageSize: 200 };
const ROW_HEIGHT = 61;
const COLUMNS: readonly Column<ApproverGroup>[] = [
  {
    title: "Name",
    sortBy: ({ name }) => name,
    cell: ({ name, description }) => (
      <div className="approver-group-name">
        <Link href={`/approver-groups/${encodeURIComponent(name)}`} className="approver-group-link">
          <Shown text={name} />
        </Link>
        {description === "" ? null : (
          <span className="hint approver-group-purpose">
            <Shown text={description} />
          </span>
        )}
      </div>
    ),
  },
  { title: "Members", isNumber: true, sortBy: ({ members }) => members.length, cell: ({ members }) => members.length },
  {
    title: "OIDC groups",
    isNumber: true,
    sortBy: ({ oidcGroups }) => oidcGroups.length,
    cell: ({ oidcGroups }) => oidcGroups.length,
  },
  {
    title: "Deputies",
    isNumber: true,
    sortBy: ({ deputies }) => deputies.length,
    cell: ({ deputies }) => deputies.length,
  },
  { title: "Mandates", isNumber: true, sortBy: ({ uses }) => uses, cell: ({ uses }) => uses.toLocaleString("en") },
  {
    title: "Changed",
    sortBy: ({ updatedAt }) => (updatedAt === undefined ? 0 : timestampMs(updatedAt)),
    cell: ({ updatedAt }) => <Time at={updatedAt} />,
  },
];

const groupsOf = ({ approverGroups }: ListApproverGroupsResponse): readonly ApproverGroup[] => approverGroups;
const idOf = ({ name }: ApproverGroup): string => name;

/** Groups of people whose approvals rules ask for, or one of them. */
export function ApproverGroups({ id }: ScreenProps) {
  return id === undefined ? <AllGroups /> : <GroupView name={id} />;
}

function AllGroups() {
  const isAdmin = useSession().session.role === "admin";
  return (
    <ScreenFrame
      name="approver-groups"
      title="Approver groups"
      within={SETTINGS}
      actions={isAdmin ? <CreateGroup /> : undefined}
    >
      <PagedList
        pages={usePages(listApproverGroups, REQUEST, groupsOf)}
        loading="the approver groups"
        empty={
          <Empty title="There is no approver group yet">
            A rule asks for the approvals of a group by <code>approvers</code>, such as 2 of <code>finance</code>.
            {isAdmin ? " Create the group first." : " An admin creates the group."}
          </Empty>
        }
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Approver groups"
        columns={COLUMNS}
        className="approver-groups"
        rowClassName="approver-groups-row"
      />
    </ScreenFrame>
  );
}

function CreateGroup() {
  const [, navigate] = useLocation();
  return (
    <DialogButton action="create-group" tone="primary" label="Create a group">
      {(close) => (
        <GroupDialog
          group={undefined}
          onDone={(name) => navigate(`/approver-groups/${encodeURIComponent(name)}`)}
          onClose={close}
        />
      )}
    </DialogButton>
  );
}
