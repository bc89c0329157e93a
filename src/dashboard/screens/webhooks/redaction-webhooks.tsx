import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  type ListRedactionWebhooksResponse,
  RedactionService,
  type RedactionWebhook,
} from "../../../../gen/agentcontrol/v1/redaction_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog, Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/form.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useChange } from "../../kit/use-change.ts";
import { useMayChange, useSession } from "../../session.ts";

const { createRedactionWebhook, deleteRedactionWebhook, listRedactionWebhooks, updateRedactionWebhook } =
  RedactionService.method;
const ROW_HEIGHT = 56;
const PAGE_SIZE = 100;
const COLUMNS: readonly Column<RedactionWebhook>[] = [
  {
    title: "Address",
    cell: ({ url }) => (
      <span className="webhook-url">
        <Shown text={url} />
      </span>
    ),
  },
  {
    title: "State",
    cell: ({ isActive }) => <Badge tone={isActive ? "good" : "plain"}>{isActive ? "active" : "inactive"}</Badge>,
  },
  { title: "Requests", cell: ({ hasSecret }) => (hasSecret ? "signed" : "not signed") },
  // The redaction proxy writes times in UTC without a zone.
  { title: "Added", cell: ({ createdAt }) => <Time at={timestampFromDate(new Date(`${createdAt}Z`))} /> },
];
const COLUMNS_WITH_ACTIONS: readonly Column<RedactionWebhook>[] = [
  ...COLUMNS,
  { title: "", cell: (webhook) => <RowActions webhook={webhook} /> },
];
const webhooksOf = ({ webhooks }: ListRedactionWebhooksResponse): readonly RedactionWebhook[] => webhooks;

/** Webhooks for personal data found in answers of models. */
export function RedactionWebhooks() {
  const { workspaceId } = useSession().session;
  const mayChange = useMayChange();
  return (
    <PagedList
      pages={usePages(listRedactionWebhooks, { workspaceId, pageSize: PAGE_SIZE }, webhooksOf)}
      loading="the webhooks"
      empty={
        <Empty title="Nobody is told">
          A redaction webhook tells another system when the proxy finds a personal value (<code>leakage.detected</code>
          ).
        </Empty>
      }
      idOf={({ id }) => id}
      rowHeight={ROW_HEIGHT}
      label="Redaction webhooks"
      columns={mayChange ? COLUMNS_WITH_ACTIONS : COLUMNS}
      className={mayChange ? "redaction-webhooks has-actions" : "redaction-webhooks"}
      rowClassName="webhook"
    />
  );
}

/** Button that adds a redaction webhook; nothing for people who may not. */
export function AddRedactionWebhook() {
  if (!useMayChange()) return null;
  return (
    <DialogButton action="create" tone="primary" label="Add a webhook">
      {(close) => <Create onClose={close} />}
    </DialogButton>
  );
}

function RowActions({ webhook }: { readonly webhook: RedactionWebhook }) {
  const { id, isActive } = webhook;
  const { workspaceId } = useSession().session;
  const update = useChange(
    (call) => call(updateRedactionWebhook, { workspaceId, webhookId: id, isActive: !isActive }),
    { refreshes: [listRedactionWebhooks], announcesFault: true },
  );
  return (
    <span className="row">
      <Button action={isActive ? "deactivate" : "activate"} isBusy={update.isPending} onClick={() => update.mutate()}>
        {isActive ? "Deactivate" : "Activate"}
      </Button>
      <DialogButton action="edit" label="Change">
        {(close) => <Edit webhook={webhook} onClose={close} />}
      </DialogButton>
      <DialogButton action="delete" tone="danger" label="Delete">
        {(close) => (
          <Confirm
            title="Delete the webhook?"
            submit="Delete"
            change={(call) => call(deleteRedactionWebhook, { workspaceId, webhookId: id })}
            refreshes={[listRedactionWebhooks]}
            onClose={close}
          >
            <p>It hears of no further leak.</p>
          </Confirm>
        )}
      </DialogButton>
    </span>
  );
}

function Edit({ webhook: { id, url }, onClose }: { readonly webhook: RedactionWebhook; readonly onClose: () => void }) {
  const { workspaceId } = useSession().session;
  return (
    <ChangeDialog
      title="Change the redaction webhook"
      submit="Save"
      change={(call, values) => call(updateRedactionWebhook, { workspaceId, webhookId: id, url: values.text("url") })}
      refreshes={[listRedactionWebhooks]}
      onClose={onClose}
    >
      <TextField
        name="url"
        label="URL"
        defaultValue={url}
        hint="Its secret stays; for another one add another webhook."
      />
    </ChangeDialog>
  );
}

function Create({ onClose }: { readonly onClose: () => void }) {
  const { workspaceId } = useSession().session;
  return (
    <ChangeDialog
      title="Add a redaction webhook"
      submit="Add"
      change={(call, values) =>
        call(createRedactionWebhook, { workspaceId, url: values.text("url"), secret: values.optional("secret") })
      }
      refreshes={[listRedactionWebhooks]}
      onClose={onClose}
    >
      <TextField name="url" label="URL" />
      <TextField
        name="secret"
        label="Secret"
        isSecret
        hint="Signs requests; empty leaves them unsigned. It is never shown again."
      />
    </ChangeDialog>
  );
}
