import type { JsonObject } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { callUnaryMethod, useQuery, useTransport } from "@connectrpc/connect-query";
import { useRef, useState } from "react";
import { Link } from "wouter";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { MandateService } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import {
  type ActionOutcome,
  type DecisionRecord,
  OutcomeStatus,
} from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { requestErrorFrom } from "../../../client/request-error.ts";
import { OutcomeBadge } from "../../kit/action-outcome.tsx";
import { Actor } from "../../kit/actor.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { FieldError, NumberField, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { OUTCOME_STATUSES, outcomeWord } from "../../kit/outcome-statuses.ts";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { amountText, type DecidedAmount, decidedAmounts, reservedText } from "./decided-amount.ts";

const { getDecision, listDecisions, reportOutcome } = EnforcementService.method;
const ENDS = [
  { value: "", title: "Choose …" },
  { value: "succeeded", title: "Succeeded: the action was done" },
  { value: "failed", title: "Failed: it was tried and not done" },
  { value: "cancelled", title: "Cancelled: it was not tried" },
];

/** Reads the amounts of a decision as it was sealed; undefined until they are read. */
export function useDecidedAmounts(decisionId: string): readonly DecidedAmount[] | undefined {
  const { data } = useQuery(getDecision, { decisionId }, { staleTime: Number.POSITIVE_INFINITY });
  const text = data?.receipt?.canonicalBody;
  return text === undefined ? undefined : decidedAmounts(JSON.parse(text) as JsonObject);
}

/** Properties of the dialog. */
export interface SettleDialogProps {
  readonly record: DecisionRecord;
  /** Outcome that stands since the dialog was opened; undefined while it is unknown. */
  readonly settled: ActionOutcome | undefined;
  readonly onSettled: (outcome: ActionOutcome) => void;
  readonly onClose: () => void;
}

/** Settles the outcome of an action. Shows who was first if somebody else settles it meanwhile. */
export function SettleDialog({ record, settled, onSettled, onClose }: SettleDialogProps) {
  const { decisionId } = record;
  const transport = useTransport();
  const [first, setFirst] = useState<ActionOutcome | undefined>(undefined);
  const isSending = useRef(false);
  const amounts = useDecidedAmounts(decisionId);
  const standing = first ?? (isSending.current ? undefined : settled);
  if (standing !== undefined) return <SettledDialog record={record} outcome={standing} onClose={onClose} />;
  /** Reads who was first, if that is what the fault says. */
  const onFault = (error: Error): void => {
    isSending.current = false;
    if (!(error instanceof ConnectError) || requestErrorFrom(error).reason !== "OUTCOME_EXISTS") return;
    callUnaryMethod(transport, getDecision, { decisionId }).then(
      ({ decision }) => {
        if (decision?.outcome === undefined) return;
        setFirst(decision.outcome);
        onSettled(decision.outcome);
      },
      // The dialog shows that an outcome exists.
      () => undefined,
    );
  };
  return (
    <ChangeDialog
      title="Settle the outcome"
      submit="Settle"
      change={(call, values) => {
        isSending.current = true;
        return call(reportOutcome, { decisionId, ...reportFrom(values) });
      }}
      refreshes={[listDecisions, getDecision, MandateService.method.listLimits]}
      done={({ outcome }) => `Settled as ${outcomeWord(outcome?.status ?? OutcomeStatus.UNSPECIFIED)}.`}
      onDone={({ outcome }) => {
        if (outcome !== undefined) onSettled(outcome);
      }}
      onFault={onFault}
      onClose={onClose}
    >
      <Facts record={record} amounts={amounts} />
      <EndFields amounts={amounts ?? []} />
    </ChangeDialog>
  );
}

function reportFrom(values: FormValues) {
  const status = OUTCOME_STATUSES.get(values.text("status"));
  if (status === undefined) throw new FieldError("status", "choose how the action ended");
  const [amount, error] = [values.number("amount"), values.optional("error")];
  if (Number.isNaN(amount)) throw new FieldError("amount", "must be a number, with a point before the decimals");
  return { status, ...(amount !== undefined && { amount }), ...(error !== undefined && { error }) };
}

function EndFields({ amounts }: { readonly amounts: readonly DecidedAmount[] }) {
  const [end, setEnd] = useState("");
  const [decided, ...others] = amounts;
  const reserved = reservedText(amounts);
  const unit = decided?.currency === undefined ? "" : ` in ${decided.currency}`;
  const empty =
    reserved === undefined ? "Left empty, none is told." : `Left empty, it is what was reserved: ${reserved}.`;
  return (
    <>
      <SelectField name="status" label="How did it end?" defaultValue="" options={ENDS} onChange={setEnd} />
      {end !== "succeeded" ? null : others.length > 0 ? (
        <p className="hint">It reserved different amounts, {reserved}; each budget captures its own.</p>
      ) : (
        <NumberField name="amount" label={`Amount that it came to${unit}`} hint={<Shown text={empty} />} />
      )}
      {end === "failed" || end === "cancelled" ? (
        <TextField name="error" label="Cause" hint="May be left empty; everybody who reads the decision sees it." />
      ) : null}
    </>
  );
}

interface FactsProps {
  readonly record: DecisionRecord;
  readonly amounts: readonly DecidedAmount[] | undefined;
}

/** Says which action it is. */
function Facts({ record, amounts }: FactsProps) {
  const { decisionId, agentName, agentId, actionType, tool, decidedAt, outcome } = record;
  return (
    <>
      <p>
        <strong>
          <Shown text={agentName || agentId} />
        </strong>{" "}
        was allowed{" "}
        <strong>
          <Shown text={actionType} />
        </strong>
        {tool === undefined || tool === actionType ? null : (
          <>
            {" "}
            with <Shown text={tool} />
          </>
        )}
        {amounts === undefined || amounts.length === 0 ? null : (
          <>
            {" for "}
            <Amounts amounts={amounts} />
          </>
        )}
        , <Time at={decidedAt} />.
      </p>
      <p className="hint">
        {outcome?.awaitsConfirmation === true ? (
          <>
            The agent reported it as {outcomeWord(outcome.status)} <Time at={outcome.reportedAt} />; a budget waits for
            somebody else to confirm or correct that.{" "}
          </>
        ) : (
          <>
            Its outcome became unknown <Time at={outcome?.reportedAt} />.{" "}
          </>
        )}
        Find out where it was to be done what happened: your answer is sealed and stands.{" "}
        <Link href={`/decisions/${decisionId}`}>Look at the decision</Link>
      </p>
    </>
  );
}

/** Amounts of an action, in one line. */
export function Amounts({ amounts }: { readonly amounts: readonly DecidedAmount[] }) {
  const text = amounts.map(({ value, currency }) => amountText(value, currency)).join(" and ");
  return text === "" ? null : <Shown text={text} />;
}

interface SettledDialogProps {
  readonly record: DecisionRecord;
  readonly outcome: ActionOutcome;
  readonly onClose: () => void;
}

function SettledDialog({ record, outcome, onClose }: SettledDialogProps) {
  return (
    <Dialog title="Somebody was first" isOpen onClose={onClose}>
      <div className="stack" role="alert">
        <p>
          The outcome is settled, and nothing of yours was sealed. What stands:{" "}
          <SettledText record={record} outcome={outcome} />
        </p>
      </div>
    </Dialog>
  );
}

interface SettledTextProps {
  readonly record: DecisionRecord;
  readonly outcome: ActionOutcome;
}

/** Says in a line how an outcome was settled, by whom and when. */
export function SettledText({ record, outcome }: SettledTextProps) {
  const { status, amount, reportedBy, reportedByName, reportedAt } = outcome;
  const amounts = useDecidedAmounts(record.decisionId);
  return (
    <span className="settled">
      <OutcomeBadge status={status} />{" "}
      {amount === undefined ? null : (
        <>
          <Shown text={amountText(amount, amounts?.[0]?.currency)} />,{" "}
        </>
      )}
      by <Actor id={reportedBy ?? "nobody"} name={reportedByName} /> <Time at={reportedAt} />
    </span>
  );
}
