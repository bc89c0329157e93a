import { useEffect, useMemo, useState } from "react";
import {
  type ListWebhookDeliveriesResponse,
  type WebhookDelivery,
  WebhookService,
} from "../../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/change-dialog.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { useMayChange } from "../../session.ts";

const { getWebhook, listWebhookDeliveries, replayWebhook } = WebhookService.method;
const ROW_HEIGHT = 44;
const PAGE_SIZE = 100;
const REFRESH_MS = 3_000;
const deliveriesOf = ({ deliveries }: ListWebhookDeliveriesResponse): readonly WebhookDelivery[] => deliveries;
const idOf = ({ messageId, attempt, at }: WebhookDelivery): string =>
  `${messageId} ${attempt} ${at?.seconds}.${at?.nanos}`;

/** Delivery attempts of a webhook, newest first. */
export function Deliveries({ webhookId }: { readonly webhookId: string }) {
  const pages = usePages(listWebhookDeliveries, { webhookId, pageSize: PAGE_SIZE }, deliveriesOf);
  const mayChange = useMayChange();
  const [from, setFrom] = useState<bigint | undefined>(undefined);
  const columns = useMemo(() => (mayChange ? [...COLUMNS, replayColumn(setFrom)] : COLUMNS), [mayChange]);
  // Reading again reads every page, so a list with more than one page is left alone.
  const isShort = pages.items.length <= PAGE_SIZE;
  // biome-ignore lint/correctness/useExhaustiveDependencies: reading again needs no new timer
  useEffect(() => {
    if (!isShort) return;
    const timer = setInterval(() => {
      if (!document.hidden) pages.readAgain();
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [isShort]);
  return (
    <section className="stack" aria-label="Deliveries">
      <h2>Deliveries of the last 30 days</h2>
      <PagedList
        pages={pages}
        loading="the deliveries"
        empty={<p className="hint">Nothing was delivered yet.</p>}
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Deliveries"
        columns={columns}
        className={mayChange ? "deliveries has-actions" : "deliveries"}
        rowClassName="delivery"
      />
      {from === undefined ? null : <ReplayFrom webhookId={webhookId} seq={from} onClose={() => setFrom(undefined)} />}
    </section>
  );
}

const COLUMNS: readonly Column<WebhookDelivery>[] = [
  {
    title: "Outcome",
    cell: ({ delivered }) => <Badge tone={delivered ? "good" : "bad"}>{delivered ? "delivered" : "failed"}</Badge>,
  },
  { title: "Event", cell: ({ event }) => <code>{event}</code> },
  { title: "Entry", cell: ({ seq }) => (seq === undefined ? "test" : seq.toLocaleString("en")), isNumber: true },
  { title: "Attempt", cell: ({ seq, attempt }) => (seq === undefined ? "" : attempt), isNumber: true },
  { title: "Answer", cell: ({ statusCode, error }) => <Answer statusCode={statusCode} error={error} /> },
  { title: "Took", cell: ({ durationMs }) => `${durationMs.toLocaleString("en")} ms`, isNumber: true },
  { title: "When", cell: ({ at }) => <Time at={at} /> },
];

const replayColumn = (onReplay: (seq: bigint) => void): Column<WebhookDelivery> => ({
  title: "",
  cell: ({ seq }) =>
    seq === undefined ? null : (
      <Button action="replay-from" tone="quiet" onClick={() => onReplay(seq)}>
        Deliver again
      </Button>
    ),
});

interface AnswerProps {
  readonly statusCode: number | undefined;
  readonly error: string | undefined;
}

function Answer({ statusCode, error }: AnswerProps) {
  return (
    <>
      {statusCode}{" "}
      {error === undefined ? null : (
        <span className="fault-text">
          <Shown text={error} />
        </span>
      )}
    </>
  );
}

interface ReplayFromProps {
  readonly webhookId: string;
  readonly seq: bigint;
  readonly onClose: () => void;
}

function ReplayFrom({ webhookId, seq, onClose }: ReplayFromProps) {
  return (
    <Confirm
      title={`Deliver again from entry ${seq}?`}
      submit="Deliver again"
      change={(call) => call(replayWebhook, { webhookId, fromSeq: seq })}
      refreshes={[getWebhook, listWebhookDeliveries]}
      onClose={onClose}
    >
      <p>Its events from this entry of the log on are delivered in order, also those that were delivered already.</p>
    </Confirm>
  );
}
