import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { ListService } from "../../../../gen/agentcontrol/v1/list_service_pb.js";
import { MandateService } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type GetProposalResponse, ProposalService } from "../../../../gen/agentcontrol/v1/proposal_service_pb.js";
import { type Proposal, ProposalStatus } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { NamedField } from "../../kit/form.tsx";
import { Message } from "../../kit/message.tsx";
import { changeText } from "../../kit/proposed.ts";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useMayChange, useSession } from "../../session.ts";
import "../../styles/mandates.css";
import "../../styles/proposals.css";
import { ProposalChange } from "./proposal-change.tsx";
import { Accepted, ProposalState } from "./proposal-state.tsx";

const { acceptProposal, getProposal, listProposals, rejectProposal } = ProposalService.method;
const PROPOSALS: ScreenPlace = { title: "Proposals", href: "/proposals" };
const MAX_TITLE = 80;
/** Milliseconds between two reads while it waits. */
const REFRESH_MS = 10_000;
/** What an answer changes. */
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
