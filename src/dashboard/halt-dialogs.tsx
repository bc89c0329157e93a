import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { Confirm } from "./kit/change-dialog.tsx";
import { useSession } from "./session.ts";

const { getWorkspace, updateWorkspace } = AdminService.method;

/** Properties of the dialogs of the halt. */
export interface HaltDialogProps {
  readonly onClose: () => void;
}

/** Halts the workspace after a confirmation. */
export function HaltDialog({ onClose }: HaltDialogProps) {
  const { workspaceId } = useSession().session;
  return (
    <Confirm
      title="Halt the workspace"
      submit="Halt"
      change={(call) => call(updateWorkspace, { workspaceId, halted: true })}
      refreshes={[getWorkspace]}
      done="The workspace is halted: every action is blocked."
      onClose={onClose}
    >
      <p>
        Every action of every agent in <strong>{workspaceId}</strong> is blocked at once: on open streams, through the
        gateway and in hooks. Approvals that are given meanwhile run nothing. Trust and limits stay as they are, and you
        can end the halt at any time.
      </p>
    </Confirm>
  );
}

/** Ends the halt of the workspace after a confirmation. */
export function ResumeDialog({ onClose }: HaltDialogProps) {
  const { workspaceId } = useSession().session;
  return (
    <Confirm
      title="End the halt"
      submit="End the halt"
      change={(call) => call(updateWorkspace, { workspaceId, halted: false })}
      refreshes={[getWorkspace]}
      done="The halt is over: the mandates decide again."
      onClose={onClose}
    >
      <p>Agents can act again, within the mandates in force. Approvals that are still usable can run their actions.</p>
    </Confirm>
  );
}
