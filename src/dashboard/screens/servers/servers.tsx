import { useMutation } from "@connectrpc/connect-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import {
  type ListMcpServersResponse,
  type McpServer,
  McpServerMode,
  McpServerService,
} from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { FormDialog, SelectField, TextField } from "../../kit/form.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { type Column, ColumnList } from "../../kit/lists/virtual-list.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import type { ScreenProps } from "../../screens.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/servers.css";
import { ModeBadge, targetOf } from "./server-parts.tsx";
import { ServerView } from "./server-view.tsx";

const { createMcpServer, listMcpServers } = McpServerService.method;
const PAGE_SIZE = 100;
const ROW_HEIGHT = 56;
const MODES = [
  { value: McpServerMode.QUARANTINE, title: "quarantine: a person accepts new and changed tools" },
  { value: McpServerMode.OPEN, title: "open: they are in force at once, and recorded" },
];
const COLUMNS: readonly Column<McpServer>[] = [
  {
    title: "Name",
    cell: ({ name }) => (
      <Link href={`/servers/${name}`} className="server-name">
        {name}
      </Link>
    ),
  },
  { title: "Mode", cell: ({ mode }) => <ModeBadge mode={mode} /> },
  { title: "Address or command", cell: (server) => <Shown text={targetOf(server).slice(0, 300)} /> },
  { title: "For clients", cell: ({ path }) => <code>{path}</code> },
  { title: "Changed", cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];
const serversOf = ({ servers }: ListMcpServersResponse): readonly McpServer[] => servers;

/** The MCP servers behind the gateway, by name. */
export function Servers({ id }: ScreenProps) {
  if (id !== undefined) return <ServerView name={id} />;
  return <ServerList />;
}

function ServerList() {
  const mayChange = useMayChange();
  const [isAdding, setIsAdding] = useState(false);
  const { items, isPending, error, readMore, readAgain } = usePages(listMcpServers, { pageSize: PAGE_SIZE }, serversOf);
  return (
    <ScreenFrame
      name="servers"
      title="MCP servers"
      actions={
        mayChange ? (
          <Button action="create" tone="primary" onClick={() => setIsAdding(true)}>
            Add a server
          </Button>
        ) : undefined
      }
    >
      {isPending ? <Loading what="the servers" /> : null}
      {error === null ? null : <Fault error={error} onRetry={readAgain} />}
      {!isPending && error === null && items.length === 0 ? (
        <Empty title="No MCP server is registered">
          Behind the gateway, every call of a tool is decided, and what each tool says of itself is pinned. Commands are
          added by <code>agentctl mcp add</code>.
        </Empty>
      ) : null}
      {items.length === 0 ? null : (
        <ColumnList
          items={items}
          idOf={({ name }) => name}
          rowHeight={ROW_HEIGHT}
          label="MCP servers"
          onEnd={readMore}
          columns={COLUMNS}
          className="servers"
          rowClassName="server"
        />
      )}
      {isAdding ? <AddServer onClose={() => setIsAdding(false)} /> : null}
    </ScreenFrame>
  );
}

function AddServer({ onClose }: { readonly onClose: () => void }) {
  const refresh = useRefresh();
  const [, navigate] = useLocation();
  const create = useMutation(createMcpServer, {
    onSuccess: ({ server }) => {
      refresh(listMcpServers);
      navigate(`/servers/${server?.name}`);
    },
  });
  return (
    <FormDialog
      title="Add an MCP server"
      action="confirm"
      submit="Add"
      isBusy={create.isPending}
      error={create.error}
      onSubmit={(values) => {
        const value = values.text("headers");
        create.mutate({
          ...{ name: values.text("name"), url: values.text("url"), mode: Number(values.text("mode")) },
          headers: value === "" ? [] : [{ name: "Authorization", value }],
        });
      }}
      onClose={onClose}
    >
      <TextField name="name" label="Name" hint="Lower-case letters, digits and hyphens. Clients use /mcp/<name>." />
      <TextField
        name="url"
        label="URL"
        hint="Its endpoint for Streamable HTTP; a private one only where ACP_MCP_ALLOW lists it."
      />
      <TextField
        name="headers"
        label="Authorization"
        hint="The value of this header, such as Bearer …, or nothing. It is stored encrypted and never shown."
        isSecret
      />
      <SelectField name="mode" label="New and changed tools" defaultValue={McpServerMode.QUARANTINE} options={MODES} />
    </FormDialog>
  );
}
