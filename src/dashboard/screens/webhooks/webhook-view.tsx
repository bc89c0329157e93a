import { useMutation, useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import {
  type RotateWebhookSecretResponse,
  type Webhook,
  WebhookService,
} from "../../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/confirm.tsx";
import { FlagField, FormDialog, NumberField, TextField } from "../../kit/form.tsx";
import { Secret } from "../../kit/secret.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, faultText, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
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
      <p>
        <Link href="/webhooks">All webhooks</Link>
      </p>
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

type Open = "edit" | "rotate" | "replay" | "delete";

function Actions({ webhook }: { readonly webhook: Webhook }) {
  const mayChange = useMayChange();
  const announce = useAnnounce();
  const refresh = useRefresh();
  const [open, setOpen] = useState<Open | undefined>(undefined);
  const { webhookId } = webhook;
  const test = useMutation(testWebhook, {
    onSuccess: ({ delivery }) => {
      const { delivered = false, statusCode, error, durationMs = 0 } = delivery ?? {};
      const answer = statusCode === undefined ? (error ?? "no answer") : `answered ${statusCode}`;
      announce({ tone: delivered ? "good" : "bad", text: `Test: ${answer} after ${durationMs} ms` });
      refresh(listWebhookDeliveries);
    },
    onError: (error) => announce({ tone: "bad", text: faultText(error) }),
  });
  if (!mayChange) return null;
  const close = (): void => {
    setOpen(undefined);
    refresh(getWebhook, listWebhooks, listWebhookDeliveries);
  };
  return (
    <div className="row">
      <Button action="test" tone="primary" isBusy={test.isPending} onClick={() => test.mutate({ webhookId })}>
        Send a test
      </Button>
      <Button action="edit" onClick={() => setOpen("edit")}>
        Change
      </Button>
      <Button action="replay" onClick={() => setOpen("replay")}>
        Deliver again
      </Button>
      <Button action="rotate" onClick={() => setOpen("rotate")}>
        New secret
      </Button>
      <Button action="delete" tone="danger" onClick={() => setOpen("delete")}>
        Delete
      </Button>
      {open === "edit" ? <Edit webhook={webhook} onClose={close} /> : null}
      {open === "replay" ? <Replay webhook={webhook} onClose={close} /> : null}
      {open === "rotate" ? <Rotate webhookId={webhookId} onClose={close} /> : null}
      {open === "delete" ? <Delete webhookId={webhookId} onClose={close} /> : null}
    </div>
  );
}

interface Closable {
  readonly onClose: () => void;
}

function Edit({ webhook: { webhookId, url, events, isActive }, onClose }: Closable & { readonly webhook: Webhook }) {
  const update = useMutation(updateWebhook, { onSuccess: onClose });
  const [isEmpty, setIsEmpty] = useState(false);
  return (
    <FormDialog
      title="Change the webhook"
      action="confirm"
      submit="Save"
      isBusy={update.isPending}
      error={update.error}
      onSubmit={(values) => {
        const chosen = values.all("events");
        // For the service no events stand for those of before.
        setIsEmpty(chosen.length === 0);
        if (chosen.length === 0) return;
        update.mutate({ webhookId, url: values.text("url"), events: chosen, isActive: values.flag("is_active") });
      }}
      onClose={onClose}
    >
      <TextField name="url" label="URL" defaultValue={url} />
      <EventsField chosen={events} fault={isEmpty ? "choose 1 or more" : undefined} />
      <FlagField
        name="is_active"
        label="Active"
        hint="An inactive webhook keeps its place and continues there later."
        defaultChecked={isActive}
      />
    </FormDialog>
  );
}

/** Reads an index of the log; what is none becomes -1, which the service refuses at its field. */
const entryFrom = (text: string): bigint => (/^\d{1,15}$/.test(text) ? BigInt(text) : -1n);

function Replay({ webhook: { webhookId, nextSeq }, onClose }: Closable & { readonly webhook: Webhook }) {
  const replay = useMutation(replayWebhook, { onSuccess: onClose });
  return (
    <FormDialog
      title="Deliver again"
      action="confirm"
      submit="Deliver"
      isBusy={replay.isPending}
      error={replay.error}
      onSubmit={(values) => replay.mutate({ webhookId, fromSeq: entryFrom(values.text("from_seq")) })}
      onClose={onClose}
    >
      <p>Every event from an entry of the log on is delivered again, in order.</p>
      <NumberField name="from_seq" label="First entry" hint={`0 is the beginning of the log; at most ${nextSeq}.`} />
    </FormDialog>
  );
}

function Rotate({ webhookId, onClose }: Closable & { readonly webhookId: string }) {
  const [rotated, setRotated] = useState<RotateWebhookSecretResponse | undefined>(undefined);
  const rotate = useMutation(rotateWebhookSecret, { onSuccess: setRotated });
  if (rotated !== undefined) {
    return (
      <Secret title="New secret" what="the secret" secret={rotated.secret} onClose={onClose}>
        <p>
          Requests carry the signatures of both secrets; the old one ends <Time at={rotated.oldSecretUntil} />.
        </p>
      </Secret>
    );
  }
  return (
    <Confirm
      title="Make a new secret?"
      action="confirm"
      submit="Make a new secret"
      isBusy={rotate.isPending}
      error={rotate.error}
      onConfirm={() => rotate.mutate({ webhookId })}
      onClose={onClose}
    >
      <p>For a day requests are signed with both, so that the receiver can change over.</p>
    </Confirm>
  );
}

function Delete({ webhookId, onClose }: Closable & { readonly webhookId: string }) {
  const [, navigate] = useLocation();
  const refresh = useRefresh();
  const remove = useMutation(deleteWebhook, {
    onSuccess: () => {
      navigate("/webhooks");
      refresh(listWebhooks);
    },
  });
  return (
    <Confirm
      title="Delete the webhook?"
      action="confirm"
      submit="Delete"
      isBusy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate({ webhookId })}
      onClose={onClose}
    >
      <p>Nothing is delivered to it any more, and what waits is dropped.</p>
    </Confirm>
  );
}
