import { Link } from "wouter";
import {
  type ListWebhooksResponse,
  type Webhook,
  WebhookService,
} from "../../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/form.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { WordList } from "../../kit/lists/word-list.tsx";
import { Secret } from "../../kit/secret.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useMayChange } from "../../session.ts";
import { EventsField } from "./events-field.tsx";
import { WebhookState } from "./webhook-state.tsx";

const { listWebhooks, createWebhook } = WebhookService.method;
const ROW_HEIGHT = 72;
const PAGE_SIZE = 100;
const COLUMNS: readonly Column<Webhook>[] = [
  {
    title: "Address",
    sortBy: ({ url }) => url,
    cell: ({ webhookId, url }) => (
      <Link href={`/webhooks/${webhookId}`} className="webhook-url">
        <Shown text={url} />
      </Link>
    ),
  },
  { title: "Events", cell: ({ events }) => <WordList words={events} none="none" /> },
  { title: "State", cell: (webhook) => <WebhookState webhook={webhook} /> },
  {
    title: "Next entry",
    cell: ({ nextSeq }) => nextSeq.toLocaleString("en"),
    isNumber: true,
    sortBy: ({ nextSeq }) => nextSeq,
  },
  { title: "Added", cell: ({ createdAt }) => <Time at={createdAt} /> },
];
const webhooksOf = ({ webhooks }: ListWebhooksResponse): readonly Webhook[] => webhooks;

/** Webhooks for events of the control plane. */
export function ControlWebhooks() {
  return (
    <PagedList
      pages={usePages(listWebhooks, { pageSize: PAGE_SIZE }, webhooksOf)}
      loading="the webhooks"
      empty={
        <Empty title="Nobody is told">
          A webhook tells another system what happens here, in order and at least once.
        </Empty>
      }
      idOf={({ webhookId }) => webhookId}
      rowHeight={ROW_HEIGHT}
      label="Webhooks"
      columns={COLUMNS}
      className="webhooks"
      rowClassName="webhook"
    />
  );
}

/** Button that adds a webhook; nothing for people who may not. */
export function AddWebhook() {
  if (!useMayChange()) return null;
  return (
    <DialogButton action="create" tone="primary" label="Add a webhook">
      {(close) => <CreateWebhook onClose={close} />}
    </DialogButton>
  );
}

function CreateWebhook({ onClose }: { readonly onClose: () => void }) {
  return (
    <ChangeDialog
      title="Add a webhook"
      submit="Add"
      change={(call, values) => call(createWebhook, { url: values.text("url"), events: values.all("events") })}
      refreshes={[listWebhooks]}
      after={({ secret }) => (
        <Secret title="Webhook added" what="the secret" secret={secret} onClose={onClose}>
          <p>The receiver checks the signature of each request with it.</p>
        </Secret>
      )}
      onClose={onClose}
    >
      <TextField
        name="url"
        label="URL"
        hint="An http or https address; a private one only where ACP_WEBHOOK_ALLOW lists it."
      />
      <EventsField chosen={["escalation.created", "escalation.resolved"]} />
    </ChangeDialog>
  );
}
