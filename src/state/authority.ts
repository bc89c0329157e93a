import { compilePatterns } from "../policy/action-pattern.ts";
import type { CompiledPatterns } from "../policy/types.ts";
import type { AuthorityKind, SealedAuthority } from "./control-changes.ts";

/** A piece of authority that has not ended, as the log has it. */
export interface AuthorityItem {
  readonly sealed: SealedAuthority;
  /** What it admits; null for a kind without action types. */
  readonly admits: CompiledPatterns | null;
  /** A policy's tools; null for any other kind. */
  readonly tools: CompiledPatterns | null;
  /** Grant: the grant that it passes on. */
  readonly parent: AuthorityItem | null;
  readonly createdAtMs: number;
  /** Actions that were allowed under it. */
  uses: number;
}

/**
 * The authority of a workspace that has not ended. What expired stays until `forgetExpired`: expiry is judged by the time
 * of the decision and never by a sweeper.
 */
export interface AuthorityBook {
  readonly size: number;
  /** The item of this id; undefined when there is none, or it has ended. */
  get(id: string): AuthorityItem | undefined;
  /** The items of one kind that an agent may use; for `mcp_tool_policy` those of every agent when `agentId` is null. */
  ofAgent(agentId: string | null, kind: AuthorityKind): Iterable<AuthorityItem>;
  /** The grants that an agent gave itself, not counting the child grants that others hung from them. */
  givenBy(agentId: string): Iterable<AuthorityItem>;
  /** The grants that an agent may act under for a principal: those whose chain the principal is a grantor of. */
  grantsFor(agentId: string, principalId: string): Iterable<AuthorityItem>;
  /** A grant and everything that hangs from it, the grant first. */
  withChildren(grantId: string): AuthorityItem[];
  put(sealed: SealedAuthority, createdAtMs: number, uses: number): void;
  end(ids: Iterable<string>): void;
  /** Counts one more action, or takes one back. An id that is not here is passed over. */
  use(id: string, change: 1 | -1): void;
  /** Lets go of what expired at or before a time of the log. */
  forgetExpired(atMs: number): void;
}

type Index = Map<string, Set<AuthorityItem>>;

const NONE: ReadonlySet<AuthorityItem> = new Set();
/** What every agent shares: the id of no agent. */
const EVERY_AGENT = "";

function addTo(index: Index, key: string, item: AuthorityItem): void {
  const known = index.get(key);
  if (known === undefined) index.set(key, new Set([item]));
  else known.add(item);
}

function removeFrom(index: Index, key: string, item: AuthorityItem): void {
  const known = index.get(key);
  known?.delete(item);
  if (known?.size === 0) index.delete(key);
}

/** The grants from one on up to the first of its chain. */
export function chainOf(grant: AuthorityItem): AuthorityItem[] {
  const chain: AuthorityItem[] = [];
  for (let link: AuthorityItem | null = grant; link !== null; link = link.parent) chain.push(link);
  return chain;
}

const ownKey = (agentId: string | null, kind: AuthorityKind): string => `${kind} ${agentId ?? EVERY_AGENT}`;
const lentKey = (agentId: string, principalId: string): string => `${agentId} ${principalId}`;

/** The keys under which an item is found, by index. */
function keysOf({ sealed }: AuthorityItem, chain: readonly AuthorityItem[]) {
  const { kind, agent_id, grantor_agent_id, parent_grant_id } = sealed;
  const grantors = kind === "grant" ? chain.map((link) => link.sealed.grantor_agent_id ?? "") : [];
  return {
    own: [ownKey(agent_id, kind)],
    given: grantor_agent_id === undefined ? [] : [grantor_agent_id],
    lent: [...new Set(grantors)].map((grantor) => lentKey(agent_id ?? "", grantor)),
    children: parent_grant_id === undefined ? [] : [parent_grant_id],
  };
}

/** Creates an empty book. */
export function createAuthorityBook(): AuthorityBook {
  const items = new Map<string, AuthorityItem>();
  const indexes: Readonly<Record<keyof ReturnType<typeof keysOf>, Index>> = {
    own: new Map(),
    given: new Map(),
    lent: new Map(),
    children: new Map(),
  };

  const eachKey = (item: AuthorityItem, visit: (index: Index, key: string) => void): void => {
    const keys = keysOf(item, chainOf(item));
    for (const name of ["own", "given", "lent", "children"] as const) {
      for (const key of keys[name]) visit(indexes[name], key);
    }
  };

  const remove = (item: AuthorityItem): void => {
    items.delete(item.sealed.id);
    eachKey(item, (index, key) => removeFrom(index, key, item));
  };

  const end = (ids: Iterable<string>): void => {
    for (const id of ids) {
      const item = items.get(id);
      if (item !== undefined) remove(item);
    }
  };

  return {
    get size() {
      return items.size;
    },
    get: (id) => items.get(id),
    ofAgent: (agentId, kind) => indexes.own.get(ownKey(agentId, kind)) ?? NONE,
    givenBy: (agentId) => indexes.given.get(agentId) ?? NONE,
    grantsFor: (agentId, principalId) => indexes.lent.get(lentKey(agentId, principalId)) ?? NONE,
    withChildren(grantId) {
      const first = items.get(grantId);
      const found = first === undefined ? [] : [first];
      // The list grows while it is walked: children of children come after them. A chain cannot loop, since a parent
      // exists before its child.
      for (const grant of found) found.push(...(indexes.children.get(grant.sealed.id) ?? NONE));
      return found;
    },
    put(sealed, createdAtMs, uses) {
      const { action_types, tool, parent_grant_id } = sealed;
      const item: AuthorityItem = {
        sealed,
        admits: action_types === undefined ? null : compilePatterns(action_types),
        tools: tool === undefined ? null : compilePatterns([tool]),
        parent: parent_grant_id === undefined ? null : (items.get(parent_grant_id) ?? null),
        createdAtMs,
        uses,
      };
      items.set(sealed.id, item);
      eachKey(item, (index, key) => addTo(index, key, item));
    },
    end,
    use(id, change) {
      const item = items.get(id);
      if (item !== undefined) item.uses += change;
    },
    forgetExpired(atMs) {
      const isOver = ({ sealed }: AuthorityItem): boolean => (sealed.expires_at_ms ?? Number.POSITIVE_INFINITY) <= atMs;
      end([...items.values()].filter(isOver).map(({ sealed }) => sealed.id));
    },
  };
}
