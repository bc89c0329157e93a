import { LRUCache } from "lru-cache";
import { compilePatterns } from "../policy/action-patterns.ts";
import type { CompiledPatterns } from "../policy/types.ts";
import type { AuthorityKind, SealedAuthority } from "./control-changes.ts";

/** A piece of authority that has not ended. */
export interface AuthorityItem {
  readonly sealed: SealedAuthority;
  /** Action types that it admits; null for a kind without action types. */
  readonly admits: CompiledPatterns | null;
  /** Tools of an MCP tool policy; null for any other kind. */
  readonly tools: CompiledPatterns | null;
  /** Parent of a grant that passes on another grant. */
  readonly parent: AuthorityItem | null;
  readonly createdAtMs: number;
  /** Number of actions that were allowed under it. */
  uses: number;
  /** Number of allowed calls of each step of a contract's plan; empty without a plan. */
  readonly stepCalls: number[];
}

type ItemsByKey = Map<string, Set<AuthorityItem>>;

const NO_ITEMS: ReadonlySet<AuthorityItem> = new Set();

function addTo(items: ItemsByKey, key: string, item: AuthorityItem): void {
  const known = items.get(key);
  if (known === undefined) items.set(key, new Set([item]));
  else known.add(item);
}

function removeFrom(items: ItemsByKey, key: string, item: AuthorityItem): void {
  const known = items.get(key);
  known?.delete(item);
  if (known?.size === 0) items.delete(key);
}

/** Parties of an ended grant, for refusals that name it. */
export interface EndedGrant {
  readonly agentId: string;
  readonly grantorAgentId: string;
}

/** Maximum number of remembered ended grants; any other is read again. */
const REMEMBERED_ENDED = 10_000;

/** Returns the chain of a grant: the grant itself, its parent, and so on up to the first one. */
export function chainOf(grant: AuthorityItem): AuthorityItem[] {
  const chain: AuthorityItem[] = [];
  for (let link: AuthorityItem | null = grant; link !== null; link = link.parent) chain.push(link);
  return chain;
}

/** The empty id stands for every agent. */
const holderKey = (agentId: string | null, kind: AuthorityKind): string => `${kind} ${agentId ?? ""}`;
const delegationKey = (agentId: string, principalId: string): string => `${agentId} ${principalId}`;

/**
 * The authority of a workspace that has not ended, by holder, grantor, principal and parent. Expired authority stays until it
 * is forgotten: whether it is in force is judged at the time of a decision, and never depends on a sweep.
 */
export class AuthorityIndex {
  readonly #items = new Map<string, AuthorityItem>();
  /** Grants that an action named and that were looked up because they have ended; null for an unknown id. */
  readonly endedGrants = new LRUCache<string, { readonly grant: EndedGrant | null }>({
    maxSize: REMEMBERED_ENDED,
    sizeCalculation: () => 1,
  });
  readonly #byHolder: ItemsByKey = new Map();
  readonly #byGrantor: ItemsByKey = new Map();
  readonly #byDelegation: ItemsByKey = new Map();
  readonly #byParent: ItemsByKey = new Map();
  readonly #bySession: ItemsByKey = new Map();

  /** Returns the item with an id; undefined when it is unknown or has ended. */
  get(id: string): AuthorityItem | undefined {
    return this.#items.get(id);
  }

  /** Tests whether a grant is in memory: in force, or looked up after its end. */
  knowsGrant(id: string): boolean {
    return this.#items.has(id) || this.endedGrants.has(id);
  }

  /** Returns the items of one kind that an agent may use. `agentId` null: the MCP tool policies for every agent. */
  heldBy(agentId: string | null, kind: AuthorityKind): Iterable<AuthorityItem> {
    return this.#byHolder.get(holderKey(agentId, kind)) ?? NO_ITEMS;
  }

  /** Returns the grants of which an agent is itself the grantor, without the child grants that others derived from them. */
  givenBy(agentId: string): Iterable<AuthorityItem> {
    return this.#byGrantor.get(agentId) ?? NO_ITEMS;
  }

  /** Returns the grants under which an agent may act for a principal: those with the principal as a grantor in their chain. */
  grantsFor(agentId: string, principalId: string): Iterable<AuthorityItem> {
    return this.#byDelegation.get(delegationKey(agentId, principalId)) ?? NO_ITEMS;
  }

  /** Returns the intent contract that covers the actions of a session; undefined if there is none. */
  contractOf(sessionId: string): AuthorityItem | undefined {
    const [contract] = this.#bySession.get(sessionId) ?? NO_ITEMS;
    return contract;
  }

  /** Returns a grant and all its descendants, the grant first; empty when it is unknown or has ended. */
  withChildren(grantId: string): AuthorityItem[] {
    const first = this.#items.get(grantId);
    const found = first === undefined ? [] : [first];
    // The list grows during the loop. It ends, since a parent is always older than its children.
    for (const grant of found) found.push(...(this.#byParent.get(grant.sealed.id) ?? NO_ITEMS));
    return found;
  }

  /**
   * Adds an item. The parent of a grant MUST have been added before. `stepCalls`: calls of the steps of a plan so far, default none.
   */
  put(sealed: SealedAuthority, createdAtMs: number, uses: number, stepCalls: readonly number[] = []): void {
    const { action_types, tool, parent_grant_id, steps = [] } = sealed;
    const item: AuthorityItem = {
      sealed,
      admits: action_types === undefined ? null : compilePatterns(action_types),
      tools: tool === undefined ? null : compilePatterns([tool]),
      parent: parent_grant_id === undefined ? null : (this.#items.get(parent_grant_id) ?? null),
      createdAtMs,
      uses,
      stepCalls: steps.map((_, index) => stepCalls[index] ?? 0),
    };
    this.#items.set(sealed.id, item);
    this.#forEachKey(item, addTo);
  }

  /** Removes items that ended. Unknown ids are ignored. */
  end(ids: Iterable<string>): void {
    for (const id of ids) {
      const item = this.#items.get(id);
      if (item === undefined) continue;
      this.#items.delete(id);
      this.#forEachKey(item, removeFrom);
    }
  }

  /** Adds a use, or undoes one; `step`: index of the plan's step that was used. An unknown id is ignored. */
  use(id: string, step: number | undefined, change: 1 | -1): void {
    const item = this.#items.get(id);
    if (item === undefined) return;
    item.uses += change;
    if (step !== undefined) item.stepCalls[step] = (item.stepCalls[step] ?? 0) + change;
  }

  /** Lists the ids of items that expired at or before a time of the log. */
  expiredAt(atMs: number): string[] {
    return [...this.#items.values()].flatMap(({ sealed: { id, expires_at_ms: expiresAtMs } }) =>
      (expiresAtMs ?? Number.POSITIVE_INFINITY) <= atMs ? id : [],
    );
  }

  #forEachKey(item: AuthorityItem, change: typeof addTo): void {
    const { kind, agent_id, grantor_agent_id, parent_grant_id, session_id } = item.sealed;
    change(this.#byHolder, holderKey(agent_id, kind), item);
    if (grantor_agent_id !== undefined) change(this.#byGrantor, grantor_agent_id, item);
    if (parent_grant_id !== undefined) change(this.#byParent, parent_grant_id, item);
    if (session_id !== undefined) change(this.#bySession, session_id, item);
    if (kind !== "grant") return;
    for (const principalId of new Set(chainOf(item).map((link) => link.sealed.grantor_agent_id ?? ""))) {
      change(this.#byDelegation, delegationKey(agent_id ?? "", principalId), item);
    }
  }
}
