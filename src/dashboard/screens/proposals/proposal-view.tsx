import { useQuery } from "@connectrpc/connect-query";
import { lazy, useMemo } from "react";
import { Link } from "wouter";
import { DryRunService } from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { ListService } from "../../../../gen/agentcontrol/v1/list_service_pb.js";
import { type MandateDefinition, MandateService } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type GetProposalResponse, ProposalService } from "../../../../gen/agentcontrol/v1/proposal_service_pb.js";
import { type Proposal, ProposalStatus } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { NamedField } from "../../kit/form.tsx";
import { Message } from "../../kit/message.tsx";
import { Part } from "../../kit/part.tsx";
import { changeText } from "../../kit/proposed.ts";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { useMayChange, useSession } from "../../session.ts";
import "../../styles/mandates.css";
import "../../styles/proposals.css";
import { LastBacktest } from "../backtests/last-backtest.tsx";
import type { BacktestQuestion } from "../backtests/use-backtest.ts";
import { definitionOf } from "../mandates/mandate-text.ts";
import { ProposalChange } from "./proposal-change.tsx";
import { Accepted, ProposalState } from "./proposal-state.tsx";

const BacktestDialog = lazy(() =>
  import("../backtests/backtest-dialog.tsx").then(({ BacktestDialog: dialog }) => ({ default: dialog })),
);

const { acceptProposal, getProposal, listProposals, rejectProposal } = ProposalService.method;
const PROPOSALS: ScreenPlace = { title: "Proposals", href: "/proposals" };
const MAX_TITLE = 80;
/** Drafts that a backtest takes. */
const MAX_MANDATES = 200;
/** Milliseconds between two reads while it waits. */
const REFRESH_MS = 10_000;
/** Queries to refresh after an answer. */
const REFRESHES = [
  getProposal,
  listProposals,
  MandateService.method.getMandate,
  MandateService.method.listMandates,
  ListService.method.getList,
  ListService.method.listLists,
];

const isOpen = ({ status }: Proposal): boolean => status === ProposalStatus.PENDING || status === ProposalStatus.STALE;

/** One proposal: its author, its answers, what it changes, and the buttons of those who may answer. */
export function ProposalView({ proposalId }: { readonly proposalId: string }) {
  const query = useQuery(
    getProposal,
    { proposalId },
    {
      refetchInterval: ({ state: { data } }) =>
        data?.proposal?.status === ProposalStatus.PENDING ? REFRESH_MS : false,
    },
  );
  const { data } = query;
  const proposal = data?.proposal;
  return (
    <ScreenFrame
      name="proposal"
      title={
        proposal === undefined ? "Proposal" : `${changeText(proposal.kind)} ${shownText(proposal.subject, MAX_TITLE)}`
      }
      within={PROPOSALS}
    >
      {query.isPending ? <Loading what="the proposal" /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {data === undefined || proposal === undefined ? null : (
        <>
          <About proposal={proposal} note={data.note} />
          <Answers proposal={proposal} cannotAccept={data.cannotAccept} />
          <ProposalChange read={data} proposal={proposal} />
          <Tried read={data} />
        </>
      )}
    </ScreenFrame>
  );
}

function About({ proposal, note }: { readonly proposal: Proposal; readonly note: string }) {
  const { proposalId, mandateId, createdBy, createdByName, createdAt, expiresAt, acceptances, status } = proposal;
  const { endedBy, endedByName, endedAt, endNote } = proposal;
  return (
    <dl className="facts card" data-id={proposalId}>
      <dt>State</dt>
      <dd data-state>
        <ProposalState proposal={proposal} />
        {status === ProposalStatus.PENDING ? (
          <>
            {" "}
            expires <Time at={expiresAt} />
          </>
        ) : null}
      </dd>
      <dt>Proposed by</dt>
      <dd>
        <Actor id={createdBy} name={createdByName} />, <Time at={createdAt} />
      </dd>
      <dt>Note</dt>
      <dd data-note>{note === "" ? <span className="hint">none</span> : <Shown text={note} />}</dd>
      <dt>Accepted</dt>
      <dd data-accepted>
        <Accepted proposal={proposal} />
        {acceptances.map(({ acceptedBy, acceptedByName, acceptedAt }) => (
          <span key={acceptedBy}>
            , <Actor id={acceptedBy} name={acceptedByName} /> <Time at={acceptedAt} />
          </span>
        ))}
      </dd>
      {status === ProposalStatus.REJECTED && endedBy !== undefined ? (
        <>
          <dt>Rejected by</dt>
          <dd data-rejected>
            <Actor id={endedBy} name={endedByName} />, <Time at={endedAt} />
            {endNote === "" ? null : (
              <>
                : <Shown text={endNote} />
              </>
            )}
          </dd>
        </>
      ) : null}
      {mandateId === undefined ? null : (
        <>
          <dt>Mandate</dt>
          <dd>
            <Link href={`/mandates/${mandateId}`}>
              <Shown text={proposal.subject} />
            </Link>
          </dd>
        </>
      )}
    </dl>
  );
}

/** Returns what to suppose to try a proposal on the past; undefined for one that changes no decision, or more than is read. */
function questionFrom({ mandates, mandateCount, list }: GetProposalResponse): BacktestQuestion | undefined {
  if (mandateCount > mandates.length || mandateCount > MAX_MANDATES) return undefined;
  const lists =
    list?.kind !== undefined && list.values.length === list.count
      ? [{ name: list.name, kind: list.kind, values: list.values }]
      : [];
  if (mandateCount + lists.length === 0) return undefined;
  return {
    lists,
    drafts: mandates.flatMap(({ after, mandateId }) => (after === undefined ? [] : draftsOf(after, mandateId))),
    archives: mandates.flatMap(({ after, mandateId = "" }) => (after === undefined ? [mandateId] : [])),
  };
}

const draftsOf = (after: MandateDefinition, mandateId: string | undefined) => [
  { ...definitionOf(after), ...(mandateId !== undefined && { replacesMandateId: mandateId }) },
];

/** Result of the last backtest of the change, and the button for another. */
function Tried({ read }: { readonly read: GetProposalResponse }) {
  const mayTry = useMayChange();
  const refresh = useRefresh();
  const question = useMemo(() => questionFrom(read), [read]);
  if (!mayTry || question === undefined || read.proposal?.status !== ProposalStatus.PENDING) return null;
  return (
    <section className="stack" aria-label="On the past">
      <h2>On the past</h2>
      <LastBacktest question={question} />
      <div className="row">
        <DialogButton action="backtest" label="Try on the past …">
          {(close) => (
            <Part what="the backtest">
              <BacktestDialog
                question={question}
                onClose={() => {
                  close();
                  refresh(DryRunService.method.findBacktest);
                }}
              />
            </Part>
          )}
        </DialogButton>
      </div>
    </section>
  );
}

interface AnswersProps extends Pick<GetProposalResponse, "cannotAccept"> {
  readonly proposal: Proposal;
}

/** Buttons of those who may answer, and the reason why others may not. */
function Answers({ proposal, cannotAccept }: AnswersProps) {
  const mayChange = useMayChange();
  const { session } = useSession();
  if (!isOpen(proposal)) return null;
  const { proposalId, createdBy, acceptances, needed, status } = proposal;
  const isLast = acceptances.length + 1 >= needed;
  return (
    <section className="row proposal-answers" aria-label="Answer">
      {cannotAccept === undefined ? (
        <DialogButton action="accept" tone="primary" label="Accept …">
          {(close) => (
            <ChangeDialog
              title="Accept the proposal"
              submit="Accept"
              change={(call) => call(acceptProposal, { proposalId })}
              refreshes={REFRESHES}
              done={({ proposal: now }) =>
                now?.status === ProposalStatus.ACCEPTED ? "Accepted. The change is in force." : "Accepted."
              }
              onClose={close}
            >
              <p>
                {isLast
                  ? "Yours is the last acceptance that it needs: the change is in force from the next decision on."
                  : `It needs ${needed - acceptances.length - 1} more after yours.`}
              </p>
            </ChangeDialog>
          )}
        </DialogButton>
      ) : null}
      {mayChange ? (
        <DialogButton action="reject" tone="danger" label={createdBy === session.keyId ? "Take back …" : "Reject …"}>
          {(close) => (
            <ChangeDialog
              title={createdBy === session.keyId ? "Take the proposal back" : "Reject the proposal"}
              submit={createdBy === session.keyId ? "Take back" : "Reject"}
              tone="danger"
              change={(call, values) => call(rejectProposal, { proposalId, note: values.text("note") })}
              refreshes={REFRESHES}
              onClose={close}
            >
              <NamedField name="note" label="Note" hint="For its author. At most 500 characters.">
                {(control) => <textarea {...control} name="note" rows={3} maxLength={500} />}
              </NamedField>
            </ChangeDialog>
          )}
        </DialogButton>
      ) : null}
      {cannotAccept === undefined ? null : (
        <p className={status === ProposalStatus.STALE ? "fault" : "hint"} data-cannot>
          You cannot accept it: <Message text={cannotAccept} />
        </p>
      )}
    </section>
  );
}
