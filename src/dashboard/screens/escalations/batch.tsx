import type { JsonObject } from "@bufbuild/protobuf";
import { useMemo, useState } from "react";
import { type Escalation, Resolution } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Shown } from "../../kit/shown.tsx";
import { RejectDialog } from "./reject-dialog.tsx";
import { type ResolveFault, useResolveAll } from "./use-resolve.ts";

/** Maximum number of faults listed. */
const MAX_FAULTS = 50;

/** Properties of the bar over selected escalations. */
export interface BatchProps {
  readonly selected: readonly Escalation[];
  /** Escalations to confirm the approval of. They stay the same while the dialog is open. */
  readonly approved: readonly Escalation[] | undefined;
  readonly onApprove: (escalations: readonly Escalation[] | undefined) => void;
  /** Clears the selection. */
  readonly onDone: () => void;
}

/** Answers several escalations at once, after showing their totals. */
export function Batch({ selected, approved, onApprove, onDone }: BatchProps) {
  const [rejected, setRejected] = useState<readonly string[] | undefined>(undefined);
  return (
    <>
      {selected.length === 0 && rejected === undefined ? null : (
        <section className="batch row" aria-label="Selection">
          <strong>{selected.length} selected</strong>
          <Button action="batch" tone="primary" onClick={() => onApprove(selected)}>
            Approve all …
          </Button>
          <Button
            action="batch-reject"
            tone="danger"
            onClick={() => setRejected(selected.map(({ escalationId }) => escalationId))}
          >
            Reject all …
          </Button>
          <Button action="clear" tone="quiet" onClick={onDone}>
            Clear
          </Button>
          {rejected === undefined ? null : <RejectDialog ids={rejected} onClose={() => setRejected(undefined)} />}
        </section>
      )}
      {approved === undefined ? null : (
        <ApproveDialog selected={approved} onClose={() => onApprove(undefined)} onDone={onDone} />
      )}
    </>
  );
}

interface ApproveDialogProps {
  readonly selected: readonly Escalation[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function ApproveDialog({ selected, onClose, onDone }: ApproveDialogProps) {
  const resolveAll = useResolveAll();
  const kinds = useMemo(() => kindsOf(selected), [selected]);
  const title = `Approve ${selected.length} actions`;
  return (
    <ChangeDialog
      title={title}
      submit={`Approve ${selected.length}`}
      change={() =>
        resolveAll(
          selected.map(({ escalationId }) => escalationId),
          { resolution: Resolution.APPROVED },
        )
      }
      onDone={({ length }) => {
        if (length === 0) onDone();
      }}
      after={(faults) => (faults.length === 0 ? undefined : <Faults title={title} faults={faults} onClose={onClose} />)}
      onClose={onClose}
    >
      <div className="table-scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Action</th>
              <th scope="col">Agent</th>
              <th scope="col" className="number">
                Count
              </th>
              <th scope="col">Sum</th>
            </tr>
          </thead>
          <tbody>
            {kinds.map(({ key, actionType, agentName, count, sums }) => (
              <tr key={key}>
                <td>
                  <Shown text={actionType} />
                </td>
                <td>
                  <Shown text={agentName} />
                </td>
                <td className="number">{count}</td>
                <td>
                  {sums.map((sum) => (
                    <div key={sum}>
                      <Shown text={sum} />
                    </div>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </ChangeDialog>
  );
}

interface FaultsProps {
  readonly title: string;
  readonly faults: readonly ResolveFault[];
  readonly onClose: () => void;
}

/** Lists the escalations that could not be resolved. */
function Faults({ title, faults, onClose }: FaultsProps) {
  return (
    <Dialog title={title} isOpen onClose={onClose} closesBy="escape">
      <ul className="fault" role="alert">
        {faults.slice(0, MAX_FAULTS).map(({ id, fault }) => (
          <li key={id}>
            <code>{id}</code> <Shown text={fault} />
          </li>
        ))}
      </ul>
      <div className="dialog-actions">
        <Button action="cancel" onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

interface Kind {
  readonly key: string;
  readonly actionType: string;
  readonly agentName: string;
  count: number;
  readonly sums: readonly string[];
}

/** Groups actions by agent and type, with the sum of each numeric argument, per currency where one is given. */
function kindsOf(selected: readonly Escalation[]): readonly Kind[] {
  const groups = Map.groupBy(selected, ({ agentId, actionType, tool }) => `${agentId} ${tool ?? ""} ${actionType}`);
  return [...groups].map(([key, members]) => {
    const [first] = members as [Escalation];
    const { actionType, agentName } = first;
    return { key, actionType, agentName, count: members.length, sums: sumsOf(members) };
  });
}

function sumsOf(members: readonly Escalation[]): readonly string[] {
  const sums = new Map<string, number>();
  for (const { arguments: args = {} } of members) {
    const currency = currencyIn(args);
    for (const [name, value] of Object.entries(args)) {
      if (typeof value !== "number") continue;
      const key = currency === undefined ? name : `${name} in ${currency}`;
      sums.set(key, (sums.get(key) ?? 0) + value);
    }
  }
  // Rounded, because binary fractions add up inexactly: 0.1 + 0.2.
  return [...sums].map(
    ([key, sum]) => `${key}: ${Number(sum.toPrecision(12)).toLocaleString("en", { maximumFractionDigits: 8 })}`,
  );
}

function currencyIn({ currency }: JsonObject): string | undefined {
  return typeof currency === "string" ? currency.slice(0, 12) : undefined;
}
