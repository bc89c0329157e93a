import { Tabs } from "radix-ui";
import { Link, useSearchParams } from "wouter";
import { type ListProposalsResponse, ProposalService } from "../../../../gen/agentcontrol/v1/proposal_service_pb.js";
import { type Proposal, ProposalStatus } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Actor } from "../../kit/actor.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { changeText, proposalHref } from "../../kit/proposed.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import "../../styles/proposals.css";
import { Accepted, ProposalState } from "./proposal-state.tsx";
import { ProposalView } from "./proposal-view.tsx";

const { listProposals } = ProposalService.method;
const PAGE_SIZE = 100;
const ROW_HEIGHT = 61;
const COLUMNS: readonly Column<Proposal>[] = [
  {
    title: "Change",
    cell: (proposal) => (
      <div className="proposal-change">
        <Link href={proposalHref(proposal)} className="proposal-link">
          {changeText(proposal.kind)} <Shown text={proposal.subject} />
        </Link>
        {proposal.endNote === "" ? null : (
          <span className="hint">
            <Shown text={proposal.endNote} />
          </span>
        )}
      </div>
    ),
  },
  { title: "By", cell: ({ createdBy, createdByName }) => <Actor id={createdBy} name={createdByName} /> },
  { title: "State", cell: (proposal) => <ProposalState proposal={proposal} /> },
  { title: "Accepted", cell: (proposal) => <Accepted proposal={proposal} /> },
  { title: "Proposed", cell: ({ createdAt }) => <Time at={createdAt} /> },
];
const OPEN = { open: true, pageSize: PAGE_SIZE };
const ALL = { open: false, pageSize: PAGE_SIZE };
const idOf = ({ proposalId }: Proposal): string => proposalId;
const isOpen = ({ status }: Proposal): boolean => status === ProposalStatus.PENDING || status === ProposalStatus.STALE;
const openOf = ({ proposals }: ListProposalsResponse): readonly Proposal[] => proposals;
const endedOf = ({ proposals }: ListProposalsResponse): readonly Proposal[] =>
  proposals.filter((each) => !isOpen(each));

/** Changes that wait for others to accept them, and those that ended; or one of them. */
export function Proposals({ id }: ScreenProps) {
  return id === undefined ? <AllProposals /> : <ProposalView key={id} proposalId={id} />;
}

function AllProposals() {
  const [parameters, setParameters] = useSearchParams();
  const tab = parameters.get("show") === "ended" ? "ended" : "waiting";
  return (
    <ScreenFrame name="proposals" title="Proposals">
      <Tabs.Root
        value={tab}
        onValueChange={(value) => setParameters(value === "ended" ? { show: value } : {}, { replace: true })}
      >
        <Tabs.List className="tabs" aria-label="Proposals">
          <Tabs.Trigger value="waiting" className="tab">
            Waiting
          </Tabs.Trigger>
          <Tabs.Trigger value="ended" className="tab">
            Ended
          </Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value={tab} className="tab-panel">
          {tab === "waiting" ? <Waiting /> : <Ended />}
        </Tabs.Content>
      </Tabs.Root>
    </ScreenFrame>
  );
}

const LIST = {
  loading: "the proposals",
  idOf,
  rowHeight: ROW_HEIGHT,
  columns: COLUMNS,
  className: "proposals",
  rowClassName: "proposal-row",
} as const;

function Waiting() {
  return (
    <PagedList
      {...LIST}
      pages={usePages(listProposals, OPEN, openOf)}
      label="Waiting proposals"
      empty={
        <Empty title="No proposal waits">
          With the setting <code>mandate_reviews</code> of a workspace, changes of mandates, packs and lists wait here
          until others accept them.
        </Empty>
      }
    />
  );
}

function Ended() {
  return (
    <PagedList
      {...LIST}
      pages={usePages(listProposals, ALL, endedOf)}
      label="Ended proposals"
      empty={<Empty title="No proposal has ended" />}
    />
  );
}
