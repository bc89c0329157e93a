import { useSearchParams } from "wouter";
import {
  AdminService,
  type ListWorkspacesResponse,
  type Workspace,
} from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { AdminsOnly } from "../../kit/admins-only.tsx";
import { Badge } from "../../kit/badge.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { useSession } from "../../session.ts";
import "../../styles/workspaces.css";
import { SETTINGS } from "../settings/place.ts";
import { CreateWorkspace } from "./create-workspace.tsx";
import { WorkspaceCard } from "./workspace-card.tsx";

const REQUEST = { pageSize: 200 };
const ROW_HEIGHT = 52;

const workspacesOf = ({ workspaces }: ListWorkspacesResponse): readonly Workspace[] => workspaces;
const idOf = ({ workspaceId }: Workspace): string => workspaceId;

/** Workspaces, and the settings of the one named in the address. */
export function Workspaces() {
  return (
    <ScreenFrame name="workspaces" title="Workspaces" within={SETTINGS} actions={<Actions />}>
      <AdminsOnly>
        <Parts />
      </AdminsOnly>
    </ScreenFrame>
  );
}

function Actions() {
  const { role, workspaceId } = useSession().session;
  // The service refuses other callers.
  if (role !== "admin" || workspaceId !== "default") return null;
  return (
    <DialogButton action="create-workspace" tone="primary" label="Create a workspace">
      {(close) => <CreateWorkspace onClose={close} />}
    </DialogButton>
  );
}

function Parts() {
  const own = useSession().session.workspaceId;
  const [parameters, setParameters] = useSearchParams();
  const open = parameters.get("open") ?? own;
  return (
    <PagedList
      pages={usePages(AdminService.method.listWorkspaces, REQUEST, workspacesOf)}
      loading="the workspaces"
      idOf={idOf}
      rowHeight={ROW_HEIGHT}
      label="Workspaces"
      row={({ workspaceId, name }) => (
        <button
          type="button"
          className="pick-row workspace-row"
          data-action="open-workspace"
          aria-pressed={workspaceId === open}
          onClick={() => setParameters({ open: workspaceId })}
        >
          <span className="workspace-name">
            <Shown text={name} />
          </span>
          {workspaceId === own ? <Badge tone="plain">yours</Badge> : null}
          <code className="hint">{workspaceId}</code>
        </button>
      )}
    >
      {(list) => (
        <div className="workspaces">
          {list}
          <WorkspaceCard key={open} workspaceId={open} />
        </div>
      )}
    </PagedList>
  );
}
