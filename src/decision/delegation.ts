import { normaliseName } from "../policy/names.ts";
import { type AuthorityItem, chainOf } from "../state/authority.ts";
import { isInForce, isUsedUp } from "../state/authority-status.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** Lent authority: the grants from the actor's own up to the first of the chain. */
export type GrantChain = readonly AuthorityItem[];

/** True if every grant of a chain holds at a time and admits an action type (normalised). */
export function chainAdmits(chain: GrantChain, normalisedType: string, nowMs: number): boolean {
  return chain.every((grant) => isInForce(grant, nowMs) && admits(grant, normalisedType));
}

const admits = (grant: AuthorityItem, normalisedType: string): boolean =>
  grant.admits?.matches(normalisedType) ?? false;

/** One action that an actor attempts under lent authority. */
export interface DelegatedAction {
  readonly actorId: string;
  readonly principalId: string;
  /** The grant to use; undefined for any that fits. */
  readonly grantId: string | undefined;
  readonly normalisedType: string;
  /** True for a retry, whose first attempt may have been the last use of a grant. */
  readonly isReplay?: boolean;
}

/** Finds a chain of grants that lets an actor act for a principal now; undefined if none does. */
export function findChain(
  { authority }: WorkspaceState,
  action: DelegatedAction,
  nowMs: number,
): GrantChain | undefined {
  for (const grant of authority.grantsFor(action.actorId, action.principalId)) {
    if (action.grantId !== undefined && grant.sealed.id !== action.grantId) continue;
    const chain = chainOf(grant);
    if (chainAdmits(chain, action.normalisedType, nowMs)) return chain;
    if (action.isReplay !== true) continue;
    const stands = (each: AuthorityItem): boolean => isInForce(each, nowMs) || isUsedUp(each, nowMs);
    if (chain.every((each) => stands(each) && admits(each, action.normalisedType))) return chain;
  }
  return undefined;
}

const contains = (wider: string, narrower: string): boolean => {
  const [outer, inner] = [normaliseName(wider), normaliseName(narrower)];
  if (!outer.endsWith("*")) return outer === inner;
  // `a*` covers `ab*` and `ab`: the star of the narrower pattern only adds longer names.
  return inner.replace(/\*$/, "").startsWith(outer.slice(0, -1));
};

/** Returns the patterns that exceed a wider list: no single pattern of the list covers them. */
export function patternsBeyond(wider: readonly string[], narrower: readonly string[]): string[] {
  return narrower.filter((pattern) => !wider.some((outer) => contains(outer, pattern)));
}
