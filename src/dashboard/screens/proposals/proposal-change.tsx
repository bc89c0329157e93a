import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { ListService } from "../../../../gen/agentcontrol/v1/list_service_pb.js";
import type {
  GetProposalResponse,
  ProposedList,
  ProposedMandate,
} from "../../../../gen/agentcontrol/v1/proposal_service_pb.js";
import { type Proposal, ProposalKind, ProposalStatus } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { countText } from "../../kit/count-text.ts";
import { Shown } from "../../kit/shown.tsx";
import { kindWord } from "../lists/kinds.ts";
import { DiffView } from "../mandates/diff-view.tsx";
import { textFromMandate } from "../mandates/mandate-text.ts";

/** Values of a list up to which it is compared with the list as it is. */
const MAX_COMPARED = 500;

/** Properties of a change. */
export interface ProposalChangeProps {
  readonly read: GetProposalResponse;
  readonly proposal: Proposal;
}

/** Shows what a proposal changes: the texts of mandates, the values of a list, or a setting. */
export function ProposalChange({ read, proposal }: ProposalChangeProps) {
  const { mandates, mandateCount, list, reviewsBefore, reviewsAfter } = read;
  return (
    <section className="stack" aria-label="What it changes">
      <h2>What it changes</h2>
      {mandates.map((mandate) => (
        <MandateChange
          key={mandate.mandateId ?? mandate.after?.name}
          mandate={mandate}
          isNamed={proposal.kind === ProposalKind.APPLY_PACK}
        />
      ))}
      {mandates.length < mandateCount ? (
        <p className="hint">
          The first {countText(mandates.length, "mandate")} of {mandateCount.toLocaleString("en")} are shown;{" "}
          <code>agentctl mandate diff</code> shows all against its files.
        </p>
      ) : null}
      {proposal.kind === ProposalKind.APPLY_PACK && mandateCount === 0 ? <p>No mandate changes its text.</p> : null}
      {list === undefined ? null : <ListChange list={list} proposal={proposal} />}
      {reviewsAfter === undefined ? null : (
        <p data-setting>
          <code>mandate_reviews</code> from {reviewsBefore} to {reviewsAfter}
          {reviewsAfter === 0 ? ": changes are then in force without another person" : ""}
        </p>
      )}
    </section>
  );
}

interface MandateChangeProps {
  readonly mandate: ProposedMandate;
  /** True shows its name, where a proposal changes several. */
  readonly isNamed: boolean;
}

function MandateChange({ mandate: { before, after, mandateId }, isNamed }: MandateChangeProps) {
  const name = (after ?? before)?.name ?? "";
  const what = before === undefined ? "new" : after === undefined ? "archived" : "changed";
  return (
    <div className="stack">
      {isNamed ? (
        <h3>
          <Shown text={name} /> <span className="hint">{what}</span>
        </h3>
      ) : null}
      {after === undefined ? (
        <p>
          The mandate{" "}
          {mandateId === undefined ? null : (
            <Link href={`/mandates/${mandateId}`}>
              <Shown text={name} />
            </Link>
          )}{" "}
          no longer decides.
        </p>
      ) : null}
      <DiffView
        before={before === undefined ? "" : textFromMandate(before)}
        after={after === undefined ? "" : textFromMandate(after)}
      />
    </div>
  );
}

interface ListChangeProps {
  readonly list: ProposedList;
  readonly proposal: Proposal;
}

/** Writes values as lines; none as no line. */
const linesOf = (values: readonly string[]): string => values.map((value) => `${value}\n`).join("");

function ListChange({ list, proposal }: ListChangeProps) {
  const { name, kind, values, count } = list;
  const isWhole = proposal.kind === ProposalKind.PUT_LIST && count <= MAX_COMPARED;
  // Before it ended, a list is as it was when the change was proposed.
  const isCompared = isWhole && proposal.status === ProposalStatus.PENDING;
  const query = useQuery(
    ListService.method.getList,
    { name, pageSize: MAX_COMPARED },
    { enabled: isCompared, retry: false },
  );
  const now = isCompared && query.data?.nextPageToken === undefined ? query.data?.values : undefined;
  const isRemoval = proposal.kind === ProposalKind.REMOVE_LIST_VALUES;
  const sorted = [...values].sort();
  return (
    <div className="stack">
      <p>
        <Link href={`/lists/${encodeURIComponent(name)}`}>
          <Shown text={name} />
        </Link>
        {kind === undefined ? "" : `, kind ${kindWord(kind)}`}
        {proposal.kind === ProposalKind.DELETE_LIST
          ? ": the list and its values are gone"
          : `, ${countText(count, "value")}`}
      </p>
      {values.length === 0 && (now ?? []).length === 0 ? null : (
        <DiffView
          before={isRemoval ? linesOf(sorted) : now === undefined ? "" : linesOf([...now].sort())}
          after={isRemoval ? "" : linesOf(sorted)}
        />
      )}
      {values.length < count ? <p className="hint">The first {countText(values.length, "value")} are shown.</p> : null}
    </div>
  );
}
