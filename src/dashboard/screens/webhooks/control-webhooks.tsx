import { useMutation } from "@connectrpc/connect-query";
import { useState } from "react";
import { Link } from "wouter";
import {
  type CreateWebhookResponse,
  type ListWebhooksResponse,
  type Webhook,
  WebhookService,
} from "../../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { FormDialog, TextField } from "../../kit/form.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { type Column, ColumnList } from "../../kit/lists/virtual-list.tsx";
import { WordList } from "../../kit/lists/word-list.tsx";
import { Secret } from "../../kit/secret.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { useMayChange } from "../../session.ts";
import { EventsField } from "./events-field.tsx";
import { WebhookState } from "./webhook-state.tsx";

const { listWebhooks, createWebhook } = WebhookService.method;
const ROW_HEIGHT = 72;
const PAGE_SIZE = 100;
const COLUMNS: readonly Column<Webhook>[] = [
  {
    title: "Address",
    cell: ({ webhookId, url }) => (
      <Link href={`/webhooks/${webhookId}`} className="webhook-url">
        <Shown text={url} />
      </Link>
    ),
  },
  { title: "Events", cell: ({ events }) => <WordList words={events} none="none" /> },
  { title: "State", cell: (webhook) => <WebhookState webhook={webhook} /> },
  { title: "Next entry", cell: ({ nextSeq }) => nextSeq.toLocaleString("en"), isNumber: true },
  { title: "Added", cell: ({ createdAt }) => <Time at={createdAt} /> },
];
const webhooksOf = ({ webhooks }: ListWebhooksResponse): readonly Webhook[] => webhooks;

/** The webhooks that hear of the control plane's events. */
export function ControlWebhooks() {
  const mayChange = useMayChange();
  const [isCreating, setIsCreating] = useState(false);
  const { items, isPending, error, readMore, readAgain } = usePages(listWebhooks, { pageSize: PAGE_SIZE }, webhooksOf);
  return (
    <div className="stack">
      {mayChange ? (
        <div className="row">
          <Button action="create" tone="primary" onClick={() => setIsCreating(true)}>
            Add a webhook
          </Button>
        </div>
      ) : null}
      {isPending ? <Loading what="the webhooks" /> : null}
      {error === null ? null : <Fault error={error} onRetry={readAgain} />}
      {!isPending && error === null && items.length === 0 ? (
        <Empty title="Nobody is told">
          A webhook tells another system what happens here, in order and at least once.
        </Empty>
      ) : null}
      {items.length === 0 ? null : (
        <ColumnList
          items={items}
          idOf={({ webhookId }) => webhookId}
          rowHeight={ROW_HEIGHT}
          label="Webhooks"
          onEnd={readMore}
          columns={COLUMNS}
          className="webhooks"
          rowClassName="webhook"
        />
      )}
      {isCreating ? <CreateWebhook onClose={() => setIsCreating(false)} /> : null}
    </div>
  );
}

function CreateWebhook({ onClose }: { readonly onClose: () => void }) {
  const [created, setCreated] = useState<CreateWebhookResponse | undefined>(undefined);
  const refresh = useRefresh();
  const create = useMutation(createWebhook, {
    onSuccess: (response) => {
      setCreated(response);
      refresh(listWebhooks);
    },
  });
  if (created !== undefined) {
    return (
      <Secret title="Webhook added" what="the secret" secret={created.secret} onClose={onClose}>
        <p>The receiver checks the signature of each request with it.</p>
      </Secret>
    );
  }
  return (
    <FormDialog
      title="Add a webhook"
      action="confirm"
      submit="Add"
      isBusy={create.isPending}
      error={create.error}
      onSubmit={(values) => create.mutate({ url: values.text("url"), events: values.all("events") })}
      onClose={onClose}
    >
      <TextField
        name="url"
        label="URL"
        hint="An http or https address; a private one only where ACP_WEBHOOK_ALLOW lists it."
      />
      <EventsField chosen={["escalation.created", "escalation.resolved"]} />
    </FormDialog>
  );
}
