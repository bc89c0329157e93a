import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createContext, useContext, useMemo, useState } from "react";
import { Link } from "wouter";
import { AgentName } from "../../kit/agent-name.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useMayChange, useSession } from "../../session.ts";
import { Amounts, SettleDialog, SettledText, useDecidedAmounts } from "./settle-dialog.tsx";
import { type UnknownOutcome, useUnknownOutcomes } from "./use-unknown-outcomes.ts";
import "../../styles/outcomes.css";

const ROW_HEIGHT = 56;

/** Opens the dialog for an action. */
const SettleContext = createContext<(decisionId: string) => void>(() => undefined);

const COLUMNS: readonly Column<UnknownOutcome>[] = [
  { title: "Agent", cell: ({ record }) => <AgentName agentId={record.agentId} /> },
  { title: "Action", cell: (outcome) => <Action {...outcome} /> },
  { title: "Amount", cell: ({ record }) => <Amount decisionId={record.decisionId} />, isNumber: true },
  {
    title: "Decided",
    cell: ({ record }) => <Time at={record.decidedAt} />,
    sortBy: ({ record }) => -Number(record.seq),
  },
  {
    title: "Unknown since",
    cell: (outcome) => <Since {...outcome} />,
    sortBy: ({ record }) => (record.outcome?.reportedAt === undefined ? 0 : timestampMs(record.outcome.reportedAt)),
  },
];
const WITH_BUTTON: readonly Column<UnknownOutcome>[] = [
  ...COLUMNS,
  { title: "", cell: (each) => <SettleButton {...each} /> },
];

const idOf = ({ record }: UnknownOutcome): string => record.decisionId;

/** Allowed actions of which nobody reported in time how they ended. Operators settle them; the others read. */
export function Outcomes() {
  const mayChange = useMayChange();
  const { session } = useSession();
  const { pages, isLive, take } = useUnknownOutcomes();
  const [openId, setOpenId] = useState<string | undefined>(undefined);
  const open = pages.items.find((each) => idOf(each) === openId);
  const own = useMemo(() => ({ reportedByName: session.name }), [session.name]);
  return (
    <ScreenFrame
      name="outcomes"
      title="Unknown outcomes"
      actions={
        <span role="status" data-link={isLive ? "live" : "connecting"}>
          <Badge tone={isLive ? "good" : "plain"}>{isLive ? "live" : "connecting"}</Badge>
        </span>
      }
    >
      <p className="hint">
        These actions were allowed, and nobody reported in time how they ended: each may have been done. What they
        reserved of a budget stays reserved until an operator says how they ended.
      </p>
      <SettleContext value={setOpenId}>
        <PagedList
          pages={pages}
          loading="the outcomes"
          empty={
            <Empty title="No outcome is unknown">
              An action that nobody reports on in time is listed here, until an operator says how it ended.
            </Empty>
          }
          idOf={idOf}
          rowHeight={ROW_HEIGHT}
          label="Unknown outcomes"
          columns={mayChange ? WITH_BUTTON : COLUMNS}
          className={mayChange ? "unknown-outcomes may-change" : "unknown-outcomes"}
          rowClassName="unknown-outcome"
        />
      </SettleContext>
      {open === undefined ? null : (
        <SettleDialog
          key={openId}
          record={open.record}
          settled={open.settled}
          onSettled={(outcome) =>
            take(idOf(open), outcome.reportedBy === session.keyId ? { ...outcome, ...own } : outcome)
          }
          onClose={() => setOpenId(undefined)}
        />
      )}
    </ScreenFrame>
  );
}

function Action({ record: { decisionId, actionType, tool } }: UnknownOutcome) {
  return (
    <>
      <Link href={`/decisions/${decisionId}`} className="unknown-action">
        <Shown text={actionType} />
      </Link>
      {tool === undefined || tool === actionType ? null : (
        <span className="hint">
          {" with "}
          <Shown text={tool} />
        </span>
      )}
    </>
  );
}

function Amount({ decisionId }: { readonly decisionId: string }) {
  const amounts = useDecidedAmounts(decisionId);
  if (amounts === undefined) return <span className="hint">…</span>;
  return amounts.length === 0 ? <span className="hint">none</span> : <Amounts amounts={amounts} />;
}

function Since({ record, settled }: UnknownOutcome) {
  return settled === undefined ? (
    <Time at={record.outcome?.reportedAt} />
  ) : (
    <SettledText record={record} outcome={settled} />
  );
}

function SettleButton({ record, settled }: UnknownOutcome) {
  const open = useContext(SettleContext);
  if (settled !== undefined) return null;
  return (
    <Button action="settle" onClick={() => open(record.decisionId)}>
      Settle
      <span className="visually-hidden">
        {" "}
        <Shown text={record.actionType} />
      </span>
    </Button>
  );
}
