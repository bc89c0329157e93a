import { useEffect } from "react";
import { Link, useLocation } from "wouter";
import {
  type ListMcpServersResponse,
  type McpServer,
  McpServerMode,
  McpServerService,
} from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { useHeldOrder } from "../../kit/lists/use-held-order.ts";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/servers.css";
import { LimitFields } from "./limit-fields.tsx";
import { ModeBadge, targetOf } from "./server-parts.tsx";
import { compareServers, ServerState } from "./server-state.tsx";
import { ServerView } from "./server-view.tsx";

const { createMcpServer, listMcpServers } = McpServerService.method;
/** All servers that a workspace may have, so that those that need a person come first. */
const PAGE_SIZE = 500;
const ROW_HEIGHT = 56;
/** Milliseconds between two reads of their state. */
const REFRESH_MS = 15_000;
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
  { title: "State", cell: (server) => <ServerState server={server} /> },
  { title: "Mode", cell: ({ mode }) => <ModeBadge mode={mode} /> },
  { title: "Address or command", cell: (server) => <Shown text={targetOf(server).slice(0, 300)} /> },
  { title: "For clients", cell: ({ path }) => <code>{path}</code> },
  { title: "Changed", cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];
const serversOf = ({ servers }: ListMcpServersResponse): readonly McpServer[] => servers.toSorted(compareServers);
const idOf = ({ name }: McpServer): string => name;

/** MCP servers behind the gateway: those that are away or have definitions to accept, then the others by name. */
export function Servers({ id }: ScreenProps) {
  if (id !== undefined) return <ServerView name={id} />;
  return <ServerList />;
}

function ServerList() {
  const mayChange = useMayChange();
  const pages = usePages(listMcpServers, { pageSize: PAGE_SIZE }, serversOf);
  const { items, handlers } = useHeldOrder(pages.items, idOf);
  // biome-ignore lint/correctness/useExhaustiveDependencies: one timer for the life of the list
  useEffect(() => {
    const timer = setInterval(pages.readAgain, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <ScreenFrame
      name="servers"
      title="MCP servers"
      actions={
        mayChange ? (
          <DialogButton action="create" tone="primary" label="Add a server">
            {(close) => <AddServer onClose={close} />}
          </DialogButton>
        ) : undefined
      }
    >
      <div {...handlers}>
        <PagedList
          pages={{ ...pages, items }}
          loading="the servers"
          empty={
            <Empty title="No MCP server is registered">
              Behind the gateway, every call of a tool is decided, and what each tool says of itself is pinned. Commands
              are added by <code>agentctl mcp add</code>.
            </Empty>
          }
          idOf={idOf}
          rowHeight={ROW_HEIGHT}
          label="MCP servers"
          columns={COLUMNS}
          className="servers"
          rowClassName="server"
        />
      </div>
    </ScreenFrame>
  );
}

function requestFrom(values: FormValues) {
  const value = values.text("headers");
  return {
    name: values.text("name"),
    url: values.text("url"),
    mode: Number(values.text("mode")),
    headers: value === "" ? [] : [{ name: "Authorization", value }],
    drift: values.text("drift"),
    scrub: values.lines("scrub"),
    passMethods: values.lines("pass_methods"),
    passMeta: values.lines("pass_meta"),
  };
}

function AddServer({ onClose }: { readonly onClose: () => void }) {
  const [, navigate] = useLocation();
  return (
    <ChangeDialog
      title="Add an MCP server"
      submit="Add"
      change={(call, values) => call(createMcpServer, requestFrom(values))}
      refreshes={[listMcpServers]}
      onDone={({ server }) => navigate(`/servers/${server?.name}`)}
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
      <LimitFields />
    </ChangeDialog>
  );
}
