import type { JsonObject } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import {
  type ActionOutcome,
  type DecisionRecord,
  OutcomeStatus,
} from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { type EndStatus, endSentences } from "../../../explain/outcome.ts";
import { OutcomeBadge } from "../../kit/action-outcome.tsx";
import { Actor } from "../../kit/actor.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { outcomeWord } from "../../kit/outcome-statuses.ts";
import { Time } from "../../kit/time.tsx";
import { useMayChange } from "../../session.ts";
import { amountText, decidedAmounts, reservedText } from "../outcomes/decided-amount.ts";
import { SettleDialog } from "../outcomes/settle-dialog.tsx";
import { SentenceView } from "./sentence-view.tsx";

const timeText = (at: Timestamp | undefined): string | undefined =>
  at === undefined ? undefined : new Date(timestampMs(at)).toISOString();

/** Properties of the card. */
export interface OutcomeCardProps {
  readonly body: JsonObject;
  readonly record: DecisionRecord | undefined;
}

/** End of an allowed action: how it ended, who reported it and when. Nothing for an action that nobody follows. */
export function OutcomeCard({ body, record }: OutcomeCardProps) {
  const mayChange = useMayChange();
  if (record?.outcome === undefined) return null;
  const { outcome, claim } = record;
  const { status, seq, reportedAt, awaitsConfirmation } = outcome;
  return (
    <section className="card stack is-tight" aria-labelledby="outcome-title" data-part="outcome">
      <div className="row is-apart">
        <h2 id="outcome-title">Outcome</h2>
        <span className="row">
          {reportedAt === undefined ? null : (
            <span className="hint">
              <Time at={reportedAt} />
            </span>
          )}
          <OutcomeBadge status={status} />
        </span>
      </div>
      <div className="stack is-tight">
        {endSentences(endFrom(body, outcome)).map((sentence, index) => (
          <SentenceView key={index} sentence={sentence} />
        ))}
      </div>
      {mayChange && (status === OutcomeStatus.UNKNOWN || awaitsConfirmation) ? (
        <div className="row">
          <DialogButton action="settle" label={awaitsConfirmation ? "Confirm or correct" : "Settle"}>
            {(close) => (
              <SettleDialog record={record} settled={undefined} onSettled={() => undefined} onClose={close} />
            )}
          </DialogButton>
        </div>
      ) : null}
      <p className="hint">
        {claim === undefined ? null : (
          <>
            Claimed by <Actor id={claim.claimedBy} name={claim.claimedByName} /> <Time at={claim.claimedAt} />.{" "}
          </>
        )}
        {seq === undefined ? null : (
          <>
            It is <Link href={`/evidence?entry=${seq}`}>entry {seq.toString()}</Link> of the log.
          </>
        )}
      </p>
    </section>
  );
}

function endFrom(body: JsonObject, outcome: ActionOutcome) {
  const { status, amount, reportedAt, reportedBy, reportedByName, error, dueAt, unknownAt, awaitsConfirmation } =
    outcome;
  const decided = decidedAmounts(body);
  const currency = decided[0]?.currency;
  return {
    status: outcomeWord(status) as EndStatus,
    amount: amount === undefined ? undefined : amountText(amount, currency),
    reserved: reservedText(decided),
    reportedAt: timeText(reportedAt),
    reportedBy: reportedByName ?? reportedBy,
    error,
    dueAt: timeText(dueAt),
    unknownAt: timeText(unknownAt),
    awaitsConfirmation,
  };
}

/** Tests whether an outcome may still change. */
export const isOpen = (outcome: ActionOutcome | undefined): boolean =>
  outcome?.status === OutcomeStatus.PENDING ||
  outcome?.status === OutcomeStatus.UNKNOWN ||
  outcome?.awaitsConfirmation === true;
