import type { NaiveAgent, NaiveBody, NaiveState } from "./naive-log.ts";
import { matches } from "./naive-rules.ts";

/** A grant of the naive model: one agent lends another what it may do. */
export interface NaiveGrant {
  readonly id: string;
  readonly grantor: string;
  readonly grantee: string;
  readonly parent: string | undefined;
  readonly types: readonly string[];
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  readonly maxUses: number;
  uses: number;
  isEnded: boolean;
}

/** A grant as sealed. */
export interface SealedGrant {
  readonly id: string;
  readonly kind: string;
  readonly agent_id: string;
  readonly grantor_agent_id: string;
  readonly parent_grant_id?: string;
  readonly action_types: readonly string[];
  readonly expires_at_ms: number | null;
  readonly max_uses: number | null;
}

/** A revocation as sealed, as far as the model looks into it. */
export interface SealedRevocation {
  readonly agent_id: string;
  readonly at: string;
  readonly ended: { readonly grants_given: readonly string[]; readonly grants_received: readonly string[] };
}

/** Whose authority an action is attempted under, or why not. */
export type Lent =
  | {
      readonly principalId: string | undefined;
      readonly principal: NaiveAgent | undefined;
      /** Who lent a part of it, the principal included. */
      readonly lenders: readonly string[];
      readonly chain: NaiveGrant[];
    }
  | { readonly path: string; readonly code: string };

/** The grant that was sealed. Throws for another kind of authority. */
export function grantFrom(sealed: SealedGrant): NaiveGrant {
  if (sealed.kind !== "grant") throw new Error(`the model knows no ${sealed.kind}`);
  return {
    id: sealed.id,
    grantor: sealed.grantor_agent_id,
    grantee: sealed.agent_id,
    parent: sealed.parent_grant_id,
    types: sealed.action_types,
    expiresAt: sealed.expires_at_ms ?? Number.POSITIVE_INFINITY,
    maxUses: sealed.max_uses ?? Number.POSITIVE_INFINITY,
    uses: 0,
    isEnded: false,
  };
}

const openGrants = ({ grants }: NaiveState): NaiveGrant[] => grants.filter(({ isEnded }) => !isEnded);

/** A grant and those that it hangs from, up to the first. */
function chainOf(state: NaiveState, grant: NaiveGrant): NaiveGrant[] {
  const parent = state.grants.find(({ id }) => id === grant.parent);
  return parent === undefined ? [grant] : [grant, ...chainOf(state, parent)];
}

/** Some grants and all that hang from them. */
function withChildren(state: NaiveState, grants: readonly NaiveGrant[]): NaiveGrant[] {
  const roots = grants.map(({ id }) => id);
  return openGrants(state).filter((grant) => chainOf(state, grant).some(({ id }) => roots.includes(id)));
}

/** The chains that let the actor do this for the principal now. */
function chainsFor(state: NaiveState, { action, at, grant_id }: NaiveBody, principalId: string): NaiveGrant[][] {
  const now = Date.parse(at);
  const holds = ({ expiresAt, uses, maxUses, types, isEnded }: NaiveGrant): boolean =>
    !isEnded && expiresAt > now && uses < maxUses && matches(types, action.action_type.trim().toLowerCase());
  return openGrants(state)
    .filter(({ id, grantee }) => grantee === action.agent_id && (grant_id === undefined || id === grant_id))
    .map((grant) => chainOf(state, grant))
    .filter((chain) => chain.some(({ grantor }) => grantor === principalId) && chain.every(holds));
}

const isSame = (chain: readonly NaiveGrant[], ids: readonly string[]): boolean =>
  chain.map(({ id }) => id).join() === ids.join();

/** Step 2 of design §4. Where several chains admit the action the design leaves open which one is used. */
export function lentTo(state: NaiveState, body: NaiveBody): Lent {
  const { on_behalf_of, grant_id, action, authority = [] } = body;
  if (on_behalf_of === undefined && grant_id === undefined) {
    return { principalId: undefined, principal: undefined, lenders: [], chain: [] };
  }
  const named = state.grants.find(({ id, grantee }) => id === grant_id && grantee === action.agent_id);
  const principalId = on_behalf_of ?? named?.grantor;
  if (principalId === undefined) return { path: "delegation", code: "GRANT_UNKNOWN" };
  const principal = state.agents.get(principalId);
  if (principal?.status === "revoked") return { path: "revoked", code: "PRINCIPAL_REVOKED" };
  const chains = chainsFor(state, body, principalId);
  const chain = chains.find((each) => isSame(each, authority)) ?? chains[0];
  if (principal === undefined || chain === undefined) {
    const isEnded = on_behalf_of === undefined && named?.isEnded === true;
    return { path: "delegation", code: isEnded ? "GRANT_UNKNOWN" : "GRANT_MISSING" };
  }
  return { principalId, principal, lenders: [principalId, ...chain.map(({ grantor }) => grantor)], chain };
}

/** Counts a use of each grant. */
export function useGrants({ grants }: NaiveState, ids: readonly string[]): void {
  for (const grant of grants) if (ids.includes(grant.id)) grant.uses += 1;
}

function endAll(what: string, ending: readonly NaiveGrant[], ids: readonly string[]): void {
  const want = ending.map(({ id }) => id).sort();
  if (want.join() !== [...ids].sort().join()) throw new Error(`${what} ended ${ids.join()} and not ${want.join()}`);
  for (const grant of ending) grant.isEnded = true;
}

/** Ends a grant with all that hang from it. Throws when the entry names others. */
export function endGrant(state: NaiveState, { ids }: { readonly ids: readonly string[] }): void {
  const first = openGrants(state).filter(({ id }) => id === ids[0]);
  endAll("a grant's end", withChildren(state, first), ids);
}

/** Ends what a revoked agent gave and was given, with all that hang from it. Throws when the entry names others. */
export function revokeGrants(state: NaiveState, { agent_id, at, ended }: SealedRevocation): void {
  const open = openGrants(state).filter(({ expiresAt }) => expiresAt > Date.parse(at));
  const isOf = ({ grantor, grantee }: NaiveGrant): boolean => grantor === agent_id || grantee === agent_id;
  const ending = withChildren(state, open.filter(isOf));
  // What hangs from a grant counts with the nearest one that the agent gave or received.
  const isGiven = (grant: NaiveGrant): boolean => chainOf(state, grant).find(isOf)?.grantor === agent_id;
  const given = ending.filter(isGiven);
  const received = ending.filter((grant) => !isGiven(grant));
  endAll(`the revocation of ${agent_id} as grantee`, received, ended.grants_received);
  endAll(`the revocation of ${agent_id} as grantor`, given, ended.grants_given);
}
