import { useState } from "react";
import { Resolution } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { NamedField } from "../../kit/form.tsx";
import { useResolve, useResolveAll } from "./use-resolve.ts";

const PRESETS = [
  "This is not your task. Stop, and ask who gave it to you.",
  "The amount or the recipient is wrong. Check it and ask again.",
  "Not now. Ask again when a person has confirmed it.",
  "Do it in another way, without this tool.",
] as const;

/** Maximum number of faults listed. */
const MAX_FAULTS = 20;

/** Properties of the dialog. */
export interface RejectDialogProps {
  readonly ids: readonly string[];
  /** Reason that is there at first. Default: none. */
  readonly note?: string;
  readonly onClose: () => void;
}

/** Asks for the reason of a rejection. The agent reads it. */
export function RejectDialog({ ids, note: first = "", onClose }: RejectDialogProps) {
  const resolve = useResolve();
  const resolveAll = useResolveAll();
  const [note, setNote] = useState(first);
  const reject = async (): Promise<void> => {
    const said = note.trim() === "" ? {} : { note: note.trim() };
    const rejecting = { ...said, resolution: Resolution.REJECTED };
    const [only] = ids;
    if (ids.length === 1 && only !== undefined) {
      const fault = await resolve({ ...rejecting, escalationId: only });
      if (fault !== null) throw new Error(fault);
      return;
    }
    const faults = await resolveAll(ids, rejecting);
    const told = faults.slice(0, MAX_FAULTS).map(({ id, fault }) => `\`${id}\`: ${fault}`);
    if (told.length > 0) throw new Error(told.join("\n"));
  };
  return (
    <ChangeDialog
      title={ids.length === 1 ? "Reject" : `Reject ${ids.length}`}
      submit="Reject"
      tone="danger"
      change={reject}
      onClose={onClose}
    >
      <fieldset className="presets">
        <legend className="visually-hidden">Reasons</legend>
        {PRESETS.map((preset) => (
          <button key={preset} type="button" className="preset" onClick={() => setNote(preset)}>
            {preset}
          </button>
        ))}
      </fieldset>
      <NamedField name="note" label="Reason" hint="The agent gets it as the answer. At most 2,000 characters.">
        {(control) => (
          <textarea
            {...control}
            name="note"
            rows={3}
            maxLength={2_000}
            value={note}
            onChange={({ target }) => setNote(target.value)}
          />
        )}
      </NamedField>
    </ChangeDialog>
  );
}
