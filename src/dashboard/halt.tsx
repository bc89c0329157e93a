import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { Button } from "./kit/button.tsx";
import { Confirm } from "./kit/change-dialog.tsx";
import { useMayChange, useSession } from "./session.ts";

const { getWorkspace, updateWorkspace } = AdminService.method;
/** Milliseconds after which a halt by someone else is seen. */
const REFRESH_MS = 5_000;

/** Returns whether the reader's workspace is halted; undefined until that is known. */
export function useHalted(): boolean | undefined {
  const { workspaceId } = useSession().session;
  return useQuery(getWorkspace, { workspaceId }, { refetchInterval: REFRESH_MS }).data?.workspace?.halted;
}

/** Button in the header that halts the workspace, after a confirmation. */
export function HaltButton() {
  const [isAsking, setIsAsking] = useState(false);
  const mayChange = useMayChange();
  const halted = useHalted();
  if (!mayChange || halted !== false) return null;
  return (
    <>
      <Button action="halt" onClick={() => setIsAsking(true)}>
        Halt
      </Button>
      {isAsking ? <HaltDialog onClose={() => setIsAsking(false)} /> : null}
    </>
  );
}

/** Sentence above every screen while the workspace is halted, with the button that ends it. */
export function HaltBanner() {
  const [isAsking, setIsAsking] = useState(false);
  const mayChange = useMayChange();
  if (useHalted() !== true) return null;
  return (
    <div className="halt-banner" role="status" data-banner="halted">
      <p>
        <strong>This workspace is halted.</strong> Every action of every agent is blocked, approved ones too.
      </p>
      {mayChange ? (
        <Button action="resume" onClick={() => setIsAsking(true)}>
          End the halt
        </Button>
      ) : null}
      {isAsking ? <ResumeDialog onClose={() => setIsAsking(false)} /> : null}
    </div>
  );
}

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
