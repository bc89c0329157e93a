import { useQuery } from "@connectrpc/connect-query";
import { useLocation } from "wouter";
import {
  type TestWebhookResponse,
  type Webhook,
  WebhookService,
} from "../../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog, Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { FieldError, FlagField, NumberField, TextField } from "../../kit/form.tsx";
import { Secret } from "../../kit/secret.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { Announcement } from "../../kit/toast.tsx";
import { useChange } from "../../kit/use-change.ts";
import { useMayChange } from "../../session.ts";
import { Deliveries } from "./deliveries.tsx";
import { EventsField } from "./events-field.tsx";
import { WebhookState } from "./webhook-state.tsx";

const {
  deleteWebhook,
  getWebhook,
  listWebhookDeliveries,
  listWebhooks,
  replayWebhook,
  rotateWebhookSecret,
  testWebhook,
  updateWebhook,
} = WebhookService.method;
const REFRESH_MS = 3_000;

/** One webhook with its deliveries. */
export function WebhookView({ webhookId }: { readonly webhookId: string }) {
  const query = useQuery(getWebhook, { webhookId }, { refetchInterval: REFRESH_MS });
  const webhook = query.data?.webhook;
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  if (webhook === undefined) return <Loading what="the webhook" />;
  return (
    <>
      <section className="card stack" aria-label="The webhook" data-id={webhook.webhookId}>
        <h2>
          <Shown text={webhook.url} />
        </h2>
        <div className="row">
          <WebhookState webhook={webhook} />
          <span className="hint">
            {webhook.events.join(", ")}; since <Time at={webhook.createdAt} />; next is entry {String(webhook.nextSeq)}{" "}
            of the log
          </span>
        </div>
        <Actions webhook={webhook} />
      </section>
      <Deliveries webhookId={webhookId} />
    </>
  );
}

/** Methods whose answers a change of a webhook affects. */
const OF_WEBHOOKS = [getWebhook, listWebhooks, listWebhookDeliveries];

/** Announces the result of a test delivery. */
function tested({ delivery }: TestWebhookResponse): Announcement {
  const { delivered = false, statusCode, error, durationMs = 0 } = delivery ?? {};
  const answer = statusCode === undefined ? (error ?? "no answer") : `answered ${statusCode}`;
  return { tone: delivered ? "good" : "bad", text: `Test: ${answer} after ${durationMs} ms` };
}

function Actions({ webhook }: { readonly webhook: Webhook }) {
  const mayChange = useMayChange();
  const { webhookId } = webhook;
  const test = useChange((call) => call(testWebhook, { webhookId }), {
    refreshes: [listWebhookDeliveries],
    done: tested,
    announcesFault: true,
  });
  if (!mayChange) return null;
  return (
    <div className="row">
      <Button action="test" tone="primary" isBusy={test.isPending} onClick={() => test.mutate()}>
        Send a test
      </Button>
      <DialogButton action="edit" label="Change">
        {(close) => <Edit webhook={webhook} onClose={close} />}
      </DialogButton>
      <DialogButton action="replay" label="Deliver again">
        {(close) => <Replay webhook={webhook} onClose={close} />}
      </DialogButton>
      <DialogButton action="rotate" label="New secret">
        {(close) => <Rotate webhookId={webhookId} onClose={close} />}
      </DialogButton>
      <DialogButton action="delete" tone="danger" label="Delete">
        {(close) => <Delete webhookId={webhookId} onClose={close} />}
      </DialogButton>
    </div>
  );
}

interface Closable {
  readonly onClose: () => void;
}

function Edit({ webhook: { webhookId, url, events, isActive }, onClose }: Closable & { readonly webhook: Webhook }) {
  return (
    <ChangeDialog
      title="Change the webhook"
      submit="Save"
      change={async (call, values) => {
        const chosen = values.all("events");
        // The service takes an empty list as unchanged.
        if (chosen.length === 0) throw new FieldError("events", "choose 1 or more");
        return call(updateWebhook, {
          webhookId,
          url: values.text("url"),
          events: chosen,
          isActive: values.flag("is_active"),
        });
      }}
      refreshes={OF_WEBHOOKS}
      onClose={onClose}
    >
      <TextField name="url" label="URL" defaultValue={url} />
      <EventsField chosen={events} />
      <FlagField
        name="is_active"
        label="Active"
        hint="An inactive webhook keeps its place and continues there later."
        defaultChecked={isActive}
      />
    </ChangeDialog>
  );
}

/** Reads an index of the log. Other texts give -1, which the service refuses at its field. */
const entryFrom = (text: string): bigint => (/^\d{1,15}$/.test(text) ? BigInt(text) : -1n);

function Replay({ webhook: { webhookId, nextSeq }, onClose }: Closable & { readonly webhook: Webhook }) {
  return (
    <ChangeDialog
      title="Deliver again"
      submit="Deliver"
      change={(call, values) => call(replayWebhook, { webhookId, fromSeq: entryFrom(values.text("from_seq")) })}
      refreshes={OF_WEBHOOKS}
      onClose={onClose}
    >
      <p>Every event from an entry of the log on is delivered again, in order.</p>
      <NumberField name="from_seq" label="First entry" hint={`0 is the beginning of the log; at most ${nextSeq}.`} />
    </ChangeDialog>
  );
}

function Rotate({ webhookId, onClose }: Closable & { readonly webhookId: string }) {
  return (
    <Confirm
      title="Make a new secret?"
      submit="Make a new secret"
      change={(call) => call(rotateWebhookSecret, { webhookId })}
      refreshes={OF_WEBHOOKS}
      after={({ secret, oldSecretUntil }) => (
        <Secret title="New secret" what="the secret" secret={secret} onClose={onClose}>
          <p>
            Requests carry the signatures of both secrets; the old one ends <Time at={oldSecretUntil} />.
          </p>
        </Secret>
      )}
      onClose={onClose}
    >
      <p>For a day requests are signed with both, so that the receiver can change over.</p>
    </Confirm>
  );
}

function Delete({ webhookId, onClose }: Closable & { readonly webhookId: string }) {
  const [, navigate] = useLocation();
  return (
    <Confirm
      title="Delete the webhook?"
      submit="Delete"
      change={(call) => call(deleteWebhook, { webhookId })}
      refreshes={[listWebhooks]}
      onDone={() => navigate("/webhooks")}
      onClose={onClose}
    >
      <p>Nothing is delivered to it any more, and what waits is dropped.</p>
    </Confirm>
  );
}
