import { useMutation } from "@connectrpc/connect-query";
import { useEffect, useState } from "react";
import {
  type ListWebhookDeliveriesResponse,
  type WebhookDelivery,
  WebhookService,
} from "../../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/confirm.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { usePages } from "../../kit/use-pages.ts";
import { useRefresh } from "../../kit/use-refresh.ts";
import { VirtualList } from "../../kit/virtual-list.tsx";
import { useMayChange } from "../../session.ts";

const ROW_HEIGHT = 44;
const PAGE_SIZE = 100;
const REFRESH_MS = 3_000;
const deliveriesOf = ({ deliveries }: ListWebhookDeliveriesResponse): readonly WebhookDelivery[] => deliveries;
const idOf = ({ messageId, attempt, at }: WebhookDelivery): string =>
  `${messageId} ${attempt} ${at?.seconds}.${at?.nanos}`;

/** The attempts to deliver to a webhook, newest first. */
export function Deliveries({ webhookId }: { readonly webhookId: string }) {
  const { items, isPending, error, readMore, readAgain } = usePages(
    WebhookService.method.listWebhookDeliveries,
    { webhookId, pageSize: PAGE_SIZE },
    deliveriesOf,
  );
  const mayChange = useMayChange();
  const [from, setFrom] = useState<bigint | undefined>(undefined);
  // Every page is read again, so whoever went further down is left in peace.
  const isShort = items.length <= PAGE_SIZE;
  // biome-ignore lint/correctness/useExhaustiveDependencies: reading again needs no new timer
  useEffect(() => {
    if (!isShort) return;
    const timer = setInterval(() => {
      if (!document.hidden) readAgain();
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [isShort]);
  return (
    <section className="stack" aria-label="Deliveries">
      <h2>Deliveries of the last 30 days</h2>
      {isPending ? <Loading what="the deliveries" /> : null}
      {error === null ? null : <Fault error={error} onRetry={readAgain} />}
      {!isPending && items.length === 0 ? <p className="hint">Nothing was delivered yet.</p> : null}
      {items.length === 0 ? null : (
        <VirtualList items={items} idOf={idOf} rowHeight={ROW_HEIGHT} label="Deliveries" onEnd={readMore}>
          {(delivery) => <DeliveryRow delivery={delivery} onReplay={mayChange ? setFrom : undefined} />}
        </VirtualList>
      )}
      {from === undefined ? null : <ReplayFrom webhookId={webhookId} seq={from} onClose={() => setFrom(undefined)} />}
    </section>
  );
}

interface DeliveryRowProps {
  readonly delivery: WebhookDelivery;
  /** Undefined for those who only read. */
  readonly onReplay: ((seq: bigint) => void) | undefined;
}

function DeliveryRow({ delivery, onReplay }: DeliveryRowProps) {
  const { event, seq, attempt, at, delivered, statusCode, error, durationMs } = delivery;
  return (
    <div className="delivery">
      <Badge tone={delivered ? "good" : "bad"}>{delivered ? "delivered" : "failed"}</Badge>
      <code>{event}</code>
      <span className="hint">{seq === undefined ? "test" : `entry ${seq}, attempt ${attempt}`}</span>
      <span className="hint">
        {statusCode === undefined ? "" : `${statusCode}, `}
        {durationMs} ms
      </span>
      <Time at={at} />
      {seq === undefined || onReplay === undefined ? null : (
        <Button action="replay-from" tone="quiet" onClick={() => onReplay(seq)}>
          Deliver again
        </Button>
      )}
      {error === undefined ? null : (
        <span className="fault-text">
          <Shown text={error} />
        </span>
      )}
    </div>
  );
}

interface ReplayFromProps {
  readonly webhookId: string;
  readonly seq: bigint;
  readonly onClose: () => void;
}

function ReplayFrom({ webhookId, seq, onClose }: ReplayFromProps) {
  const refresh = useRefresh();
  const { getWebhook, listWebhookDeliveries, replayWebhook } = WebhookService.method;
  const replay = useMutation(replayWebhook, {
    onSuccess: () => {
      refresh(getWebhook, listWebhookDeliveries);
      onClose();
    },
  });
  return (
    <Confirm
      title={`Deliver again from entry ${seq}?`}
      action="confirm"
      submit="Deliver again"
      isBusy={replay.isPending}
      error={replay.error}
      onConfirm={() => replay.mutate({ webhookId, fromSeq: seq })}
      onClose={onClose}
    >
      <p>Its events from this entry of the log on are delivered in order, also those that were delivered already.</p>
    </Confirm>
  );
}
