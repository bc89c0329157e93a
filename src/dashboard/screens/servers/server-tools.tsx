import { useMemo, useState } from "react";
import {
  type ListMcpToolsResponse,
  McpServerService,
  type McpTool,
  McpToolStatus,
  type McpToolVersion,
} from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { JsonView } from "../../kit/json-view.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown } from "../../kit/shown.tsx";
import { Fault } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useChange } from "../../kit/use-change.ts";
import { useMayChange } from "../../session.ts";

const { acceptMcpTool, listMcpTools } = McpServerService.method;
const PAGE_SIZE = 100;
const ROW_HEIGHT = 56;
/** Characters of a description shown in the list. */
const MAX_DESCRIPTION = 200;
const toolsOf = ({ tools }: ListMcpToolsResponse): readonly McpTool[] => tools;

/** Pinned tools of a server. */
export function ServerTools({ server }: { readonly server: string }) {
  const [isWaiting, setIsWaiting] = useState(false);
  const [looked, setLooked] = useState<string | undefined>(undefined);
  const request = { name: server, pageSize: PAGE_SIZE };
  const pages = usePages(listMcpTools, request, toolsOf);
  const { items } = pages;
  const shown = useMemo(
    () => (isWaiting ? items.filter(({ pending }) => pending !== undefined) : items),
    [items, isWaiting],
  );
  const columns = useMemo(() => [...COLUMNS, lookColumn(setLooked)], []);
  const tool = items.find(({ name }) => name === looked);
  return (
    <section className="stack" aria-label="Tools">
      <h2>Tools</h2>
      <label className="row">
        <input
          type="checkbox"
          name="waiting"
          checked={isWaiting}
          onChange={({ target }) => setIsWaiting(target.checked)}
        />
        Only those that wait to be accepted
      </label>
      <PagedList
        pages={{ ...pages, items: shown }}
        loading="the tools"
        empty={<p className="hint">There is none.</p>}
        idOf={({ name }) => name}
        rowHeight={ROW_HEIGHT}
        label="Tools"
        columns={columns}
        className="server-tools"
        rowClassName="server-tool"
      />
      {tool === undefined ? null : <ToolDialog server={server} tool={tool} onClose={() => setLooked(undefined)} />}
    </section>
  );
}

/** Returns the beginning of a tool's description, from the version in force if it has one, else from the pending one. */
function descriptionOf({ active, pending }: McpTool): string {
  const { description } = (active ?? pending)?.definition ?? {};
  return typeof description === "string" ? description.slice(0, MAX_DESCRIPTION) : "";
}

const COLUMNS: readonly Column<McpTool>[] = [
  {
    title: "Tool",
    cell: ({ name }) => (
      <span className="server-tool-name">
        <Shown text={name} />
      </span>
    ),
  },
  {
    title: "Description",
    cell: (tool) => (
      <span className="server-tool-description">
        <Shown text={descriptionOf(tool)} />
      </span>
    ),
  },
  {
    title: "State",
    cell: ({ status, active }) => {
      const isActive = status === McpToolStatus.ACTIVE;
      return (
        <Badge tone={isActive ? "good" : "wait"}>
          {isActive ? `version ${active?.version} in force` : "quarantined"}
        </Badge>
      );
    },
  },
  {
    title: "To accept",
    cell: ({ pending }) => (pending === undefined ? null : <Badge tone="wait">version {pending.version} waits</Badge>),
  },
];

const lookColumn = (onLook: (name: string) => void): Column<McpTool> => ({
  title: "",
  cell: ({ name, pending }) => (
    <Button action="look" onClick={() => onLook(name)}>
      {pending === undefined ? "Definition" : "Look at the change"}
    </Button>
  ),
});

interface ToolDialogProps {
  readonly server: string;
  readonly tool: McpTool;
  readonly onClose: () => void;
}

/** Definition of a tool: the version in force and the pending one, with their diff and a button to accept it. */
function ToolDialog({ server, tool, onClose }: ToolDialogProps) {
  const { name, active, pending } = tool;
  return (
    <Dialog title={`Tool ${tool.registeredName}`} isOpen onClose={onClose} isWide>
      <div className="stack">
        {pending === undefined ? null : (
          <Waiting key={pending.version} server={server} name={name} version={pending} isFirst={active === undefined} />
        )}
        {active === undefined ? null : (
          <section className="stack" aria-label="In force" data-version={active.version}>
            <h3>Version {active.version}, in force</h3>
            <Accepted version={active} />
            {active.changes.length === 0 ? null : <Changes changes={active.changes} />}
            <JsonView value={active.definition ?? null} />
          </section>
        )}
      </div>
    </Dialog>
  );
}

interface WaitingProps {
  readonly server: string;
  readonly name: string;
  readonly version: McpToolVersion;
  readonly isFirst: boolean;
}

function Waiting({ server, name, version, isFirst }: WaitingProps) {
  const mayChange = useMayChange();
  const accept = useChange((call) => call(acceptMcpTool, { name: server, toolName: name, version: version.version }), {
    refreshes: [listMcpTools],
  });
  return (
    <section className="stack" aria-label="Waits to be accepted" data-version={version.version}>
      <h3>Version {version.version} waits to be accepted</h3>
      <p className="hint">
        Its server listed it first <Time at={version.firstSeenAt} />. Until a person accepts it, it is hidden and its
        calls are refused.
      </p>
      {isFirst || version.changes.length === 0 ? null : <Changes changes={version.changes} />}
      <JsonView value={version.definition ?? null} />
      {accept.error === null ? null : <Fault error={accept.error} />}
      {mayChange ? (
        <div className="row">
          <Button action="accept" tone="primary" isBusy={accept.isPending} onClick={() => accept.mutate()}>
            Accept version {version.version}
          </Button>
        </div>
      ) : null}
    </section>
  );
}

function Accepted({ version: { acceptedBy, acceptedAt } }: { readonly version: McpToolVersion }) {
  return (
    <p className="hint" data-accepted>
      accepted by <code>{acceptedBy}</code>, <Time at={acceptedAt} />
    </p>
  );
}

/** Differences from the previous version, one per line. */
function Changes({ changes }: { readonly changes: readonly string[] }) {
  return (
    <ul className="definition-changes" aria-label="Changes">
      {changes.map((change) => (
        <li key={change} data-change>
          <Shown text={change} />
        </li>
      ))}
    </ul>
  );
}
