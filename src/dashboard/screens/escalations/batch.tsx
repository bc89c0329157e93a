import { useMemo, useState } from "react";
import { type Escalation, Resolution } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { NamedField } from "../../kit/form.tsx";
import { Shown } from "../../kit/shown.tsx";
import { standingOn } from "./approval-words.ts";
import { currenciesIn, numberText } from "./fired-argument.ts";
import { SelectAll } from "./queue-row.tsx";
import { RejectDialog } from "./reject-dialog.tsx";
import { idOfRow, isPending, type Row } from "./rows.ts";
import { type ResolveFault, useResolveAll } from "./use-resolve.ts";

/** Maximum number of faults listed. */
const MAX_FAULTS = 50;

/** Properties of the bar above the rows. */
export interface BatchProps {
  readonly rows: readonly Row[];
  /** Number of rows that wait to be shown. */
  readonly held: number;
  /** Words for those rows: "more urgent". */
  readonly heldText: string;
  readonly onShow: () => void;
  /** Ids of the selected rows. */
  readonly selected: ReadonlySet<string>;
  /** Pending escalations that the selected rows stand for. */
  readonly chosen: readonly Escalation[];
  /** Escalations to confirm the approval of. They stay the same while the dialog is open. */
  readonly approved: readonly Escalation[] | undefined;
  /** Undefined for people who cannot answer. */
  readonly onSelect: ((ids: readonly string[], isSelected: boolean) => void) | undefined;
  readonly onApprove: (escalations: readonly Escalation[] | undefined) => void;
  /** Clears the selection. */
  readonly onDone: () => void;
}

/** Selects all rows and answers the selected ones at once, with one note. Its height stays the same, so that no row moves. */
export function Batch(props: BatchProps) {
  const { rows, held, heldText, onShow, selected, chosen, approved, onSelect, onApprove, onDone } = props;
  const [rejected, setRejected] = useState<readonly string[] | undefined>(undefined);
  const waiting = rows.filter(({ escalation }) => isPending(escalation));
  const ids = waiting.map(idOfRow);
  const count = waiting.reduce((sum, { identical }) => sum + 1 + identical.length, 0);
  return (
    <section className="queue-row queue-bar" aria-label="Selection">
      {onSelect === undefined ? null : (
        <SelectAll ids={ids} selected={selected} label="Select all" onSelect={onSelect} />
      )}
      {chosen.length === 0 ? (
        <span className="hint">{count.toLocaleString("en")} waiting</span>
      ) : (
        <>
          <strong>{chosen.length.toLocaleString("en")} selected</strong>
          <Button action="batch" tone="primary" onClick={() => onApprove(chosen)}>
            Approve …
          </Button>
          <Button
            action="batch-reject"
            tone="danger"
            onClick={() => setRejected(chosen.map(({ escalationId }) => escalationId))}
          >
            Reject …
          </Button>
          <Button action="clear" tone="quiet" onClick={onDone}>
            Clear
          </Button>
        </>
      )}
      <span role="status">
        {held === 0 ? null : (
          <button type="button" className="link" data-action="show-held" onClick={onShow}>
            {held.toLocaleString("en")} {heldText}: show
          </button>
        )}
      </span>
      {rejected === undefined ? null : <RejectDialog ids={rejected} onClose={() => setRejected(undefined)} />}
      {approved === undefined ? null : (
        <ApproveDialog selected={approved} onClose={() => onApprove(undefined)} onDone={onDone} />
      )}
    </section>
  );
}

interface ApproveDialogProps {
  readonly selected: readonly Escalation[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function ApproveDialog({ selected: all, onClose, onDone }: ApproveDialogProps) {
  const resolveAll = useResolveAll();
  // Leaves out escalations that wait for others. The choice stands while the dialog is open.
  const [selected] = useState(() => all.filter((each) => standingOn(each) === undefined));
  const left = all.length - selected.length;
  const kinds = useMemo(() => kindsOf(selected), [selected]);
  const title = `Approve ${selected.length} actions`;
  return (
    <ChangeDialog
      title={title}
      submit={`Approve ${selected.length}`}
      isDisabled={selected.length === 0}
      change={(_, values) => {
        const note = values.optional("note");
        return resolveAll(
          selected.map(({ escalationId }) => escalationId),
          { resolution: Resolution.APPROVED, ...(note !== undefined && { note }) },
        );
      }}
      onDone={({ length }) => {
        if (length === 0) onDone();
      }}
      after={(faults) => (faults.length === 0 ? undefined : <Faults title={title} faults={faults} onClose={onClose} />)}
      onClose={onClose}
    >
      {left === 0 ? null : (
        <p data-left-out={left}>
          {left === 1 ? "One of them is left out" : `${left.toLocaleString("en")} of them are left out`}: your approval
          does not count there. The card says why.
        </p>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long table scrolls by key too. */}
      <section className="table-scroll batch-kinds" tabIndex={0} aria-label="What is approved">
        <table>
          <thead>
            <tr>
              <th scope="col">Action</th>
              <th scope="col" className="number">
                Count
              </th>
              <th scope="col" className="number">
                Sum
              </th>
            </tr>
          </thead>
          <tbody>
            {kinds.map(({ key, actionType, agentName, count, sums }) => (
              <tr key={key}>
                <td>
                  <strong>
                    <Shown text={actionType} />
                  </strong>{" "}
                  <span className="hint">
                    by <Shown text={agentName} />
                  </span>
                </td>
                <td className="number">{count}</td>
                <Sums sums={sums} />
              </tr>
            ))}
          </tbody>
          {kinds.length < 2 ? null : (
            <tfoot>
              <tr>
                <th scope="row">In all</th>
                <td className="number">{selected.length}</td>
                <Sums sums={sumsOf(selected)} />
              </tr>
            </tfoot>
          )}
        </table>
      </section>
      <NamedField name="note" label="Note" hint="One for all of them, kept with each answer. At most 2,000 characters.">
        {(control) => <textarea {...control} name="note" rows={2} maxLength={2_000} />}
      </NamedField>
    </ChangeDialog>
  );
}

function Sums({ sums }: { readonly sums: readonly string[] }) {
  return (
    <td className="number">
      {sums.map((sum) => (
        <div key={sum}>
          <Shown text={sum} />
        </div>
      ))}
    </td>
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
  const sums = new Map<string, Sum>();
  for (const { arguments: args = {} } of members) {
    const currencyOf = currenciesIn(args);
    for (const [name, value] of Object.entries(args)) {
      if (typeof value !== "number") continue;
      const currency = currencyOf(name);
      const key = `${currency ?? ""} ${name}`;
      sums.set(key, { name, currency, sum: (sums.get(key)?.sum ?? 0) + value });
    }
  }
  return [...sums.values()].map(sumText);
}

interface Sum {
  readonly name: string;
  readonly currency: string | undefined;
  readonly sum: number;
}

function sumText({ name, currency, sum }: Sum): string {
  // Rounded, because binary fractions add up inexactly: 0.1 + 0.2.
  const rounded = Number(sum.toPrecision(12));
  const text =
    currency === undefined ? rounded.toLocaleString("en", { maximumFractionDigits: 8 }) : numberText(rounded, currency);
  return `${name}: ${text}`;
}
