import { useQuery } from "@connectrpc/connect-query";
import { lazy, useState } from "react";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import type { HaltDialogProps } from "./halt-dialogs.tsx";
import { Button } from "./kit/button.tsx";
import { Part } from "./kit/part.tsx";
import { useMayChange, useSession } from "./session.ts";

const HaltDialog = lazy(() => import("./halt-dialogs.tsx").then(({ HaltDialog: dialog }) => ({ default: dialog })));
const ResumeDialog = lazy(() => import("./halt-dialogs.tsx").then(({ ResumeDialog: dialog }) => ({ default: dialog })));

const { getWorkspace } = AdminService.method;
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
      {isAsking ? <HaltWindow name="halt" onClose={() => setIsAsking(false)} /> : null}
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
      {isAsking ? <HaltWindow name="resume" onClose={() => setIsAsking(false)} /> : null}
    </div>
  );
}

/** Dialog of the halt that is open. */
export interface HaltWindowProps extends HaltDialogProps {
  readonly name: "halt" | "resume";
}

/** Asks before the workspace is halted, or before its halt ends. */
export function HaltWindow({ name, onClose }: HaltWindowProps) {
  return (
    <Part what="the dialog" fallback={null}>
      {name === "halt" ? <HaltDialog onClose={onClose} /> : <ResumeDialog onClose={onClose} />}
    </Part>
  );
}
