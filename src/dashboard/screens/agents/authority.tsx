import { useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import { type Agent, AgentService, AgentStatus } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/change-dialog.tsx";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault } from "../../kit/states.tsx";
import { useMayChange } from "../../session.ts";
import { AuthorityItemRow } from "./authority-item.tsx";
import { type AuthorityItem, KIND_NAMES, KINDS, LISTS } from "./authority-kinds.ts";
import { type AuthorityParts, type AuthorityRow, authorityRows, isHeld } from "./authority-rows.ts";
import { NewAuthority } from "./new-authority.tsx";
import { useGrantTree } from "./use-grant-tree.ts";

const ROW_HEIGHT = 58;

/** Authority of an agent beyond its own permissions, as a tree. */
export function Authority({ agent }: { readonly agent: Agent }) {
  const { agentId, status } = agent;
  const [parameters, setParameters] = useSearchParams();
  const showsEnded = parameters.get("ended") === "1";
  const mayChange = useMayChange();
  const pages = usePagesOf(agentId);
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [ending, setEnding] = useState<AuthorityItem>();
  const roots = useMemo(
    () => pages.grants.items.filter((item) => showsEnded || isHeld(item)).map(({ id }) => id),
    [pages.grants.items, showsEnded],
  );
  const tree = useGrantTree(roots, chosen);
  const rows = authorityRows({ agentId, pages, tree, showsEnded });
  const fault = KIND_NAMES.map((kind) => pages[kind].error).find((error) => error !== null);
  const show = (row: AuthorityRow) => {
    if (row.type === "group") return <GroupRow title={row.title} count={row.count} />;
    if (row.type === "note") return <p className="hint authority-row">{row.text}</p>;
    if (row.type === "more") {
      return (
        <div className="authority-row">
          <Button action="read-more" tone="quiet" onClick={() => pages[row.kind].readMore?.()}>
            Read older {row.title.toLowerCase()}
          </Button>
        </div>
      );
    }
    const { item, depth, passedOn } = row;
    return (
      <AuthorityItemRow
        item={item}
        depth={depth}
        passedOn={passedOn}
        agentId={agentId}
        onToggle={(isOpen) => setChosen((before) => new Map(before).set(item.id, isOpen))}
        onEnd={mayChange && isHeld(item) ? () => setEnding(item) : undefined}
      />
    );
  };
  return (
    <div className="stack">
      <div className="row">
        {mayChange && status === AgentStatus.ACTIVE ? <NewAuthority agentId={agentId} /> : null}
        <label className="row">
          <input
            type="checkbox"
            name="ended"
            checked={showsEnded}
            onChange={({ target }) =>
              setParameters(target.checked ? { tab: "authority", ended: "1" } : { tab: "authority" }, { replace: true })
            }
          />
          Show what has ended
        </label>
      </div>
      {fault === undefined ? null : <Fault error={fault} />}
      <VirtualList items={rows} idOf={rowId} rowHeight={ROW_HEIGHT} label="Authority">
        {show}
      </VirtualList>
      {ending === undefined ? null : <EndAuthority item={ending} onClose={() => setEnding(undefined)} />}
    </div>
  );
}

const rowId = (row: AuthorityRow): string => row.id;

/** Reads every kind. The hooks run in a fixed order. */
function usePagesOf(agentId: string): AuthorityParts["pages"] {
  return {
    sessions: KINDS.sessions.usePages(agentId),
    credentials: KINDS.credentials.usePages(agentId),
    grants: KINDS.grants.usePages(agentId),
    temporal_windows: KINDS.temporal_windows.usePages(agentId),
    intent_contracts: KINDS.intent_contracts.usePages(agentId),
    federation_tokens: KINDS.federation_tokens.usePages(agentId),
    mcp_tool_policies: KINDS.mcp_tool_policies.usePages(agentId),
  };
}

function GroupRow({ title, count }: { readonly title: string; readonly count: string }) {
  return (
    <h3 className="authority-group">
      {title} <span className="hint">{count}</span>
    </h3>
  );
}

/** Ends a piece of authority after confirmation. */
function EndAuthority({ item, onClose }: { readonly item: AuthorityItem; readonly onClose: () => void }) {
  const { one, end } = KINDS[item.kind];
  const noun = one.slice(one.indexOf(" ") + 1);
  return (
    <Confirm
      title={`End the ${noun}?`}
      submit="End it"
      change={(call) => end(call, item.id)}
      refreshes={[...LISTS, AgentService.method.getAgent]}
      done={`Ended the ${noun}.`}
      onClose={onClose}
    >
      <p>
        {item.name === "" ? null : (
          <strong>
            <Shown text={item.name} />{" "}
          </strong>
        )}
        <code>{item.id}</code>
      </p>
      <p>
        It holds no more from the next decision on, and cannot be taken up again.
        {item.kind === "grants" ? " Everything that was passed on of it ends with it." : ""}
      </p>
    </Confirm>
  );
}
