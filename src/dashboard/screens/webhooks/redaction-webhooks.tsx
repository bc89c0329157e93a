import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { useMutation } from "@connectrpc/connect-query";
import { useState } from "react";
import {
  type ListRedactionWebhooksResponse,
  RedactionService,
  type RedactionWebhook,
} from "../../../../gen/agentcontrol/v1/redaction_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/confirm.tsx";
import { FormDialog, TextField } from "../../kit/form.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { type Column, ColumnList } from "../../kit/lists/virtual-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty, Fault, faultText, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
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
  // Its own text names UTC without a zone.
  { title: "Added", cell: ({ createdAt }) => <Time at={timestampFromDate(new Date(`${createdAt}Z`))} /> },
];
const COLUMNS_WITH_ACTIONS: readonly Column<RedactionWebhook>[] = [
  ...COLUMNS,
  { title: "", cell: (webhook) => <RowActions webhook={webhook} /> },
];
const webhooksOf = ({ webhooks }: ListRedactionWebhooksResponse): readonly RedactionWebhook[] => webhooks;

/** The webhooks that hear of personal values in what a model answered. */
export function RedactionWebhooks() {
  const { workspaceId } = useSession().session;
  const mayChange = useMayChange();
  const [isCreating, setIsCreating] = useState(false);
  const request = { workspaceId, pageSize: PAGE_SIZE };
  const { items, isPending, error, readMore, readAgain } = usePages(listRedactionWebhooks, request, webhooksOf);
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
          A redaction webhook tells another system when the proxy finds a personal value (<code>leakage.detected</code>
          ).
        </Empty>
      ) : null}
      {items.length === 0 ? null : (
        <ColumnList
          items={items}
          idOf={({ id }) => id}
          rowHeight={ROW_HEIGHT}
          label="Redaction webhooks"
          onEnd={readMore}
          columns={mayChange ? COLUMNS_WITH_ACTIONS : COLUMNS}
          className={mayChange ? "redaction-webhooks has-actions" : "redaction-webhooks"}
          rowClassName="webhook"
        />
      )}
      {isCreating ? <Create onClose={() => setIsCreating(false)} /> : null}
    </div>
  );
}

function RowActions({ webhook }: { readonly webhook: RedactionWebhook }) {
  const { id, isActive } = webhook;
  const { workspaceId } = useSession().session;
  const announce = useAnnounce();
  const refresh = useRefresh();
  const [open, setOpen] = useState<"edit" | "delete" | undefined>(undefined);
  const options = { onSuccess: () => refresh(listRedactionWebhooks) };
  const update = useMutation(updateRedactionWebhook, {
    ...options,
    onError: (error) => announce({ tone: "bad", text: faultText(error) }),
  });
  const remove = useMutation(deleteRedactionWebhook, options);
  return (
    <span className="row">
      <Button
        action={isActive ? "deactivate" : "activate"}
        isBusy={update.isPending}
        onClick={() => update.mutate({ workspaceId, webhookId: id, isActive: !isActive })}
      >
        {isActive ? "Deactivate" : "Activate"}
      </Button>
      <Button action="edit" onClick={() => setOpen("edit")}>
        Change
      </Button>
      <Button action="delete" tone="danger" onClick={() => setOpen("delete")}>
        Delete
      </Button>
      {open === "edit" ? <Edit webhook={webhook} onClose={() => setOpen(undefined)} /> : null}
      {open === "delete" ? (
        <Confirm
          title="Delete the webhook?"
          action="confirm"
          submit="Delete"
          isBusy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate({ workspaceId, webhookId: id })}
          onClose={() => setOpen(undefined)}
        >
          <p>It hears of no further leak.</p>
        </Confirm>
      ) : null}
    </span>
  );
}

function Edit({ webhook: { id, url }, onClose }: { readonly webhook: RedactionWebhook; readonly onClose: () => void }) {
  const { workspaceId } = useSession().session;
  const refresh = useRefresh();
  const update = useMutation(updateRedactionWebhook, {
    onSuccess: () => {
      refresh(listRedactionWebhooks);
      onClose();
    },
  });
  return (
    <FormDialog
      title="Change the redaction webhook"
      action="confirm"
      submit="Save"
      isBusy={update.isPending}
      error={update.error}
      onSubmit={(values) => update.mutate({ workspaceId, webhookId: id, url: values.text("url") })}
      onClose={onClose}
    >
      <TextField
        name="url"
        label="URL"
        defaultValue={url}
        hint="Its secret stays; for another one add another webhook."
      />
    </FormDialog>
  );
}

function Create({ onClose }: { readonly onClose: () => void }) {
  const { workspaceId } = useSession().session;
  const refresh = useRefresh();
  const create = useMutation(createRedactionWebhook, {
    onSuccess: () => {
      refresh(listRedactionWebhooks);
      onClose();
    },
  });
  return (
    <FormDialog
      title="Add a redaction webhook"
      action="confirm"
      submit="Add"
      isBusy={create.isPending}
      error={create.error}
      onSubmit={(values) => {
        const secret = values.optional("secret");
        create.mutate({ workspaceId, url: values.text("url"), ...(secret !== undefined && { secret }) });
      }}
      onClose={onClose}
    >
      <TextField name="url" label="URL" />
      <TextField
        name="secret"
        label="Secret"
        isSecret
        hint="Signs requests; empty leaves them unsigned. It is never shown again."
      />
    </FormDialog>
  );
}
