import { Link } from "wouter";
import { AuthorityStatus } from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { AgentName } from "../../kit/agent-name.tsx";
import { Button } from "../../kit/button.tsx";
import { WordList } from "../../kit/lists/word-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { sessionHref } from "../sessions/session-href.ts";
import { AuthorityBadge } from "./authority-badge.tsx";
import type { AuthorityItem } from "./authority-kinds.ts";
import type { PassedOn } from "./use-grant-tree.ts";

/** Maximum indentation, so that deep trees fit narrow pages. */
const MAX_INDENT = 6;
const INDENT_REM = 1.1;

/** Properties of a piece of authority in the tree. */
export interface AuthorityItemProps {
  readonly item: AuthorityItem;
  readonly depth: number;
  readonly passedOn: PassedOn | undefined;
  /** Agent that the tree belongs to. */
  readonly agentId: string;
  readonly onToggle: (isOpen: boolean) => void;
  /** Ends the item; undefined if it cannot be ended. */
  readonly onEnd: (() => void) | undefined;
}

/** One piece of authority: its scope, status, expiry and uses. */
export function AuthorityItemRow({ item, depth, passedOn, agentId, onToggle, onEnd }: AuthorityItemProps) {
  const indent = Math.min(depth, MAX_INDENT) * INDENT_REM;
  return (
    <div
      className={depth === 0 ? "authority-row" : "authority-row is-passed-on"}
      data-authority={item.id}
      data-depth={depth}
      style={{ marginLeft: `${indent}rem` }}
    >
      <Toggle item={item} passedOn={passedOn} onToggle={onToggle} />
      <div className="authority-what">
        <span>
          {depth === 0 ? null : <span className="visually-hidden">level {depth + 1}: </span>}
          <Title item={item} agentId={agentId} />
        </span>
        {item.words.length === 0 ? null : <WordList words={item.words} none="" />}
        <span className="hint">
          <code>{item.id}</code> <Note item={item} />
        </span>
      </div>
      <AuthorityBadge status={item.status} />
      {onEnd === undefined ? null : (
        <Button action="end" onClick={onEnd} aria-label={`End ${item.id}`}>
          End
        </Button>
      )}
    </div>
  );
}

type ToggleProps = Pick<AuthorityItemProps, "item" | "passedOn" | "onToggle">;

/** Expands and collapses the grants made from a grant. A grant without children has no button. */
function Toggle({ item, passedOn, onToggle }: ToggleProps) {
  if (passedOn === undefined || passedOn.children?.length === 0) return <span className="authority-toggle" />;
  return (
    <button
      type="button"
      className="icon-button authority-toggle"
      data-action="toggle"
      aria-expanded={passedOn.isOpen}
      onClick={() => onToggle(!passedOn.isOpen)}
    >
      <span aria-hidden>{passedOn.isOpen ? "▾" : "▸"}</span>
      <span className="visually-hidden">What was passed on of {item.id}</span>
    </button>
  );
}

function Title({ item, agentId }: Pick<AuthorityItemProps, "item" | "agentId">) {
  const { grant, name, kind, id } = item;
  if (grant === undefined) {
    const shown = name === "" ? <span className="hint">without a name</span> : <Shown text={name} />;
    return kind === "sessions" ? <Link href={sessionHref(id)}>{shown}</Link> : shown;
  }
  const { grantorAgentId, granteeAgentId, parentGrantId } = grant;
  return (
    <>
      {grantorAgentId === agentId ? "this agent" : <AgentName agentId={grantorAgentId} />}
      {parentGrantId === undefined ? " lends to " : " passes on to "}
      {granteeAgentId === agentId ? "this agent" : <AgentName agentId={granteeAgentId} />}
    </>
  );
}

function Note({ item }: { readonly item: AuthorityItem }) {
  const { note, startsAt, expiresAt, uses, maxUses, grant, status } = item;
  const isOver = status === AuthorityStatus.EXPIRED;
  return (
    <>
      {note === "" ? null : (
        <>
          · <Shown text={note} />{" "}
        </>
      )}
      {startsAt === undefined ? null : (
        <>
          · opens <Time at={startsAt} />{" "}
        </>
      )}
      {expiresAt === undefined ? (
        "· never expires "
      ) : (
        <>
          · {isOver ? "expired" : "expires"} <Time at={expiresAt} />{" "}
        </>
      )}
      {uses === undefined ? null : `· ${uses} ${maxUses === undefined ? "" : `of ${maxUses} `}uses `}
      {grant?.parentGrantId === undefined ? null : (
        <>
          · from <code>{grant.parentGrantId}</code>
        </>
      )}
    </>
  );
}
