import { useState } from "react";
import { useSearchParams } from "wouter";
import {
  AdminService,
  type ListWorkspacesResponse,
  type Workspace,
} from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { AdminsOnly } from "../../kit/admins-only.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useSession } from "../../session.ts";
import "../../styles/workspaces.css";
import { CreateWorkspace } from "./create-workspace.tsx";
import { WorkspaceCard } from "./workspace-card.tsx";

const REQUEST = { pageSize: 200 };
const ROW_HEIGHT = 52;

const workspacesOf = ({ workspaces }: ListWorkspacesResponse): readonly Workspace[] => workspaces;
const idOf = ({ workspaceId }: Workspace): string => workspaceId;

/** The workspaces, and the settings of the one that the address names. */
export function Workspaces() {
  return (
    <ScreenFrame name="workspaces" title="Workspaces" actions={<Actions />}>
      <AdminsOnly>
        <Parts />
      </AdminsOnly>
    </ScreenFrame>
  );
}

function Actions() {
  const [isOpen, setIsOpen] = useState(false);
  const { role, workspaceId } = useSession().session;
  // The service refuses everybody else.
  if (role !== "admin" || workspaceId !== "default") return null;
  return (
    <>
      <Button action="create-workspace" tone="primary" onClick={() => setIsOpen(true)}>
        Create a workspace
      </Button>
      {isOpen ? <CreateWorkspace onClose={() => setIsOpen(false)} /> : null}
    </>
  );
}

function Parts() {
  const own = useSession().session.workspaceId;
  const [parameters, setParameters] = useSearchParams();
  const open = parameters.get("open") ?? own;
  const method = AdminService.method.listWorkspaces;
  const { items, isPending, error, readMore, readAgain } = usePages(method, REQUEST, workspacesOf);
  if (isPending) return <Loading what="the workspaces" />;
  if (error !== null) return <Fault error={error} onRetry={readAgain} />;
  return (
    <div className="workspaces">
      <VirtualList {...{ items, idOf, rowHeight: ROW_HEIGHT, label: "Workspaces", onEnd: readMore }}>
        {({ workspaceId, name }) => (
          <button
            type="button"
            className="workspace-row"
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
      </VirtualList>
      <WorkspaceCard key={open} workspaceId={open} />
    </div>
  );
}
