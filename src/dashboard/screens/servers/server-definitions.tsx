import { useMemo, useState } from "react";
import {
  type ListMcpDefinitionsResponse,
  type McpDefinition,
  McpDefinitionKind,
  McpServerService,
  McpToolStatus,
  type McpToolVersion,
} from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { JsonView } from "../../kit/json-view.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useChange } from "../../kit/use-change.ts";
import { useMayChange } from "../../session.ts";

const { acceptMcpDefinition, listMcpDefinitions, listMcpServers } = McpServerService.method;
const PAGE_SIZE = 100;
const ROW_HEIGHT = 56;
/** Characters of a description shown in the list. */
const MAX_DESCRIPTION = 200;
const MAX_TITLE = 120;
const definitionsOf = ({ definitions }: ListMcpDefinitionsResponse): readonly McpDefinition[] => definitions;

/** Kinds of definitions: for one, for several, and the title of the column with their name or URI. */
const KINDS = [
  { kind: McpDefinitionKind.TOOL, one: "Tool", many: "Tools", column: "Tool" },
  { kind: McpDefinitionKind.PROMPT, one: "Prompt", many: "Prompts", column: "Prompt" },
  { kind: McpDefinitionKind.RESOURCE, one: "Resource", many: "Resources", column: "URI" },
  { kind: McpDefinitionKind.RESOURCE_TEMPLATE, one: "Resource template", many: "Resource templates", column: "URI" },
  { kind: McpDefinitionKind.INSTRUCTIONS, one: "Instructions", many: "Instructions", column: "Of" },
] as const;

/** Returns the text that names a definition: instructions have no name. */
const nameOf = ({ id }: McpDefinition): string => (id === "" ? "the server" : id);

/** Pinned definitions of a server, of one kind at a time. */
export function ServerDefinitions({ server }: { readonly server: string }) {
  const [chosen, setChosen] = useState<McpDefinitionKind>(McpDefinitionKind.TOOL);
  const words = KINDS.find(({ kind }) => kind === chosen) ?? KINDS[0];
  return (
    <section className="stack" aria-label="Definitions">
      <h2>Definitions</h2>
      <label className="row">
        Kind
        <select name="kind" value={chosen} onChange={({ target }) => setChosen(Number(target.value))}>
          {KINDS.map(({ kind, many }) => (
            <option key={kind} value={kind}>
              {many}
            </option>
          ))}
        </select>
      </label>
      <DefinitionList key={chosen} server={server} words={words} />
    </section>
  );
}

interface DefinitionListProps {
  readonly server: string;
  readonly words: (typeof KINDS)[number];
}

function DefinitionList({ server, words }: DefinitionListProps) {
  const [isWaiting, setIsWaiting] = useState(false);
  const [looked, setLooked] = useState<string | undefined>(undefined);
  const { kind, one, many, column } = words;
  const request = { name: server, kind, pageSize: PAGE_SIZE };
  const pages = usePages(listMcpDefinitions, request, definitionsOf);
  const { items } = pages;
  const shown = useMemo(
    () => (isWaiting ? items.filter(({ pending }) => pending !== undefined) : items),
    [items, isWaiting],
  );
  const columns = useMemo(() => [nameColumn(column), ...COLUMNS, lookColumn(setLooked)], [column]);
  const definition = items.find(({ id }) => id === looked);
  return (
    <>
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
        loading="the definitions"
        empty={<p className="hint">There is none.</p>}
        idOf={({ id }) => id}
        rowHeight={ROW_HEIGHT}
        label={many}
        columns={columns}
        className="server-definitions"
        rowClassName="server-definition"
      />
      {definition === undefined ? null : (
        <DefinitionDialog
          server={server}
          title={`${one} ${nameOf(definition)}`}
          definition={definition}
          onClose={() => setLooked(undefined)}
        />
      )}
    </>
  );
}

/** Returns the beginning of a description, from the version in force if there is one, else from the pending one. */
function descriptionOf({ active, pending }: McpDefinition): string {
  const { description, instructions } = (active ?? pending)?.definition ?? {};
  const text = description ?? instructions;
  return typeof text === "string" ? text.slice(0, MAX_DESCRIPTION) : "";
}

const nameColumn = (title: string): Column<McpDefinition> => ({
  title,
  cell: (definition) => (
    <span className="server-definition-name">
      <Shown text={nameOf(definition)} />
    </span>
  ),
});

const COLUMNS: readonly Column<McpDefinition>[] = [
  {
    title: "Description",
    cell: (definition) => (
      <span className="server-definition-description">
        <Shown text={descriptionOf(definition)} />
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

const lookColumn = (onLook: (id: string) => void): Column<McpDefinition> => ({
  title: "",
  cell: ({ id, pending }) => (
    <Button action="look" onClick={() => onLook(id)}>
      {pending === undefined ? "Definition" : "Look at the change"}
    </Button>
  ),
});

interface DefinitionDialogProps {
  readonly server: string;
  readonly title: string;
  readonly definition: McpDefinition;
  readonly onClose: () => void;
}

/** A definition: the version in force and the pending one, with their diff and a button to accept it. */
function DefinitionDialog({ server, title, definition, onClose }: DefinitionDialogProps) {
  const { active, pending } = definition;
  return (
    <Dialog title={shownText(title, MAX_TITLE)} isOpen onClose={onClose} isWide>
      <div className="stack">
        {pending === undefined ? null : (
          <Waiting
            key={pending.version}
            server={server}
            definition={definition}
            version={pending}
            isFirst={active === undefined}
          />
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
  readonly definition: McpDefinition;
  readonly version: McpToolVersion;
  readonly isFirst: boolean;
}

function Waiting({ server, definition: { kind, id }, version, isFirst }: WaitingProps) {
  const mayChange = useMayChange();
  const request = { name: server, kind, id, version: version.version };
  const accept = useChange((call) => call(acceptMcpDefinition, request), {
    refreshes: [listMcpDefinitions, listMcpServers],
  });
  return (
    <section className="stack" aria-label="Waits to be accepted" data-version={version.version}>
      <h3>Version {version.version} waits to be accepted</h3>
      <p className="hint">
        Its server listed it first <Time at={version.firstSeenAt} />. Until a person accepts it, it is hidden and
        requests that use it are refused.
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

function Accepted({ version: { acceptedBy, acceptedByName, acceptedAt } }: { readonly version: McpToolVersion }) {
  return (
    <p className="hint" data-accepted>
      accepted by <Actor id={acceptedBy ?? ""} name={acceptedByName} />, <Time at={acceptedAt} />
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
