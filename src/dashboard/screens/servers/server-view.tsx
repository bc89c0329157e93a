import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { useLocation } from "wouter";
import {
  type McpServer,
  McpServerMode,
  McpServerService,
  type RefreshMcpServerResponse,
} from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useChange } from "../../kit/use-change.ts";
import { useMayChange } from "../../session.ts";
import { ServerDefinitions } from "./server-definitions.tsx";
import { ModeBadge, targetOf } from "./server-parts.tsx";
import { EditServer } from "./server-settings.tsx";
import { ServerState } from "./server-state.tsx";

const { deleteMcpServer, getMcpServer, listMcpDefinitions, listMcpServers, refreshMcpServer, updateMcpServer } =
  McpServerService.method;

const SERVERS: ScreenPlace = { title: "MCP servers", href: "/servers" };

/** One MCP server with its definitions. */
export function ServerView({ name }: { readonly name: string }) {
  const { data, error, isError, refetch } = useQuery(getMcpServer, { name });
  const server = data?.server;
  return (
    <ScreenFrame name="servers" title={shownText(name)} within={SERVERS}>
      {isError ? <Fault error={error} onRetry={() => void refetch()} /> : null}
      {server === undefined && !isError ? <Loading what="the server" /> : null}
      {server === undefined ? null : (
        <>
          <ServerCard server={server} />
          <ServerDefinitions server={server.name} />
        </>
      )}
    </ScreenFrame>
  );
}

function ServerCard({ server }: { readonly server: McpServer }) {
  const mayChange = useMayChange();
  const [found, setFound] = useState<RefreshMcpServerResponse | undefined>(undefined);
  const secrets = [...server.headerNames, ...server.envNames];
  return (
    <section className="card stack" aria-label="The server">
      <h2>
        <Shown text={targetOf(server)} />
      </h2>
      <div className="row">
        <ModeBadge mode={server.mode} />
        <ServerState server={server} />
        <span className="hint">
          clients use <code>{server.path}</code>; since <Time at={server.createdAt} />
          {secrets.length === 0 ? "" : `; secrets: ${secrets.join(", ")}`}
        </span>
      </div>
      <p className="hint" data-limits>
        <Shown text={limitsText(server)} />
      </p>
      <Protections server={server} />
      {mayChange ? <Actions server={server} onFound={setFound} /> : null}
      {found === undefined ? null : <Found found={found} />}
    </section>
  );
}

/** Lists the protections against a command. */
function Protections({ server }: { readonly server: McpServer }) {
  if (server.protections.length === 0) return null;
  return (
    <ul className="hint" aria-label="Protections">
      {server.protections.map(({ kind, holds, detail }) => (
        <li key={kind}>
          {holds ? null : <strong>Not held: </strong>}
          <Shown text={detail} />
        </li>
      ))}
    </ul>
  );
}

/** Tells what passes to and from a server, and its times. */
function limitsText({ drift, idleSeconds, scrub, passMethods, passMeta }: McpServer): string {
  const named = (title: string, list: readonly string[]) => (list.length === 0 ? [] : [`${title} ${list.join(", ")}`]);
  return [
    drift === "each_call" ? "listed at each call" : `listings are relied on for ${drift} s`,
    ...(idleSeconds === undefined ? [] : [`ended after ${idleSeconds} idle seconds`]),
    ...named("personal values replaced:", scrub),
    ...named("methods that pass undecided:", passMethods),
    ...named("keys of _meta that are passed on:", passMeta),
  ].join("; ");
}

interface ActionsProps {
  readonly server: McpServer;
  readonly onFound: (found: RefreshMcpServerResponse) => void;
}

function Actions({ server, onFound }: ActionsProps) {
  const { name, mode } = server;
  const [, navigate] = useLocation();
  const read = useChange((call) => call(refreshMcpServer, { name }), {
    refreshes: [listMcpDefinitions, listMcpServers],
    onDone: onFound,
    announcesFault: true,
  });
  const isStrict = mode === McpServerMode.QUARANTINE;
  const next = isStrict ? McpServerMode.OPEN : McpServerMode.QUARANTINE;
  const update = useChange((call) => call(updateMcpServer, { name, mode: next }), {
    refreshes: [getMcpServer, listMcpServers],
    announcesFault: true,
  });
  return (
    <div className="row">
      <Button action="refresh" tone="primary" isBusy={read.isPending} onClick={() => read.mutate()}>
        Read its definitions now
      </Button>
      <Button action="mode" isBusy={update.isPending} onClick={() => update.mutate()}>
        {isStrict ? "Open: new definitions at once" : "Quarantine new and changed definitions"}
      </Button>
      <DialogButton action="edit" label="Settings">
        {(close) => <EditServer server={server} onClose={close} />}
      </DialogButton>
      <DialogButton action="delete" tone="danger" label="Remove">
        {(close) => (
          <Confirm
            title={`Remove MCP server ${name}?`}
            submit="Remove"
            change={(call) => call(deleteMcpServer, { name })}
            refreshes={[listMcpServers]}
            onDone={() => navigate("/servers")}
            onClose={close}
          >
            <p>Its clients reach it no more, and its pinned definitions are forgotten.</p>
          </Confirm>
        )}
      </DialogButton>
    </div>
  );
}

function Found({ found: { definitions, unusable } }: { readonly found: RefreshMcpServerResponse }) {
  const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
  return (
    <div role="status">
      <p>
        {sum(definitions.map(({ active }) => active))} in force,{" "}
        {sum(definitions.map(({ quarantined }) => quarantined))} to accept, {unusable.length} that cannot be registered
      </p>
      <ul>
        {unusable.map(({ name, reason }) => (
          <li key={`${name} ${reason}`} data-unusable>
            <code>
              <Shown text={name} />
            </code>{" "}
            <Shown text={reason} />
          </li>
        ))}
      </ul>
    </div>
  );
}
