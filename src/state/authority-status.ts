import type { AuthorityItem } from "./authority.ts";

/** Status of a piece of authority; the words of the proto enum `AuthorityStatus`. */
export type AuthorityStatus = "active" | "ended" | "expired" | "used_up";

/** Facts that determine the status of a piece of authority. */
export interface AuthorityStatusFacts {
  readonly endedAtMs: number | null;
  readonly expiresAtMs: number | null;
  readonly maxUses: number | null;
  readonly uses: number;
}

/** Returns the status at a time. A temporal window that has not opened yet is `active`. */
export function authorityStatus(facts: AuthorityStatusFacts, nowMs: number): AuthorityStatus {
  const { endedAtMs, expiresAtMs, maxUses, uses } = facts;
  if (endedAtMs !== null) return "ended";
  if (expiresAtMs !== null && expiresAtMs <= nowMs) return "expired";
  return maxUses !== null && uses >= maxUses ? "used_up" : "active";
}

/** Returns the status of an item of the index, which holds only authority that has not ended. */
export function itemStatus({ sealed, uses }: AuthorityItem, nowMs: number): AuthorityStatus {
  return authorityStatus({ endedAtMs: null, expiresAtMs: sealed.expires_at_ms, maxUses: sealed.max_uses, uses }, nowMs);
}

/** Tests that an item is used up, and has neither ended nor expired. */
export function isUsedUp(item: AuthorityItem, nowMs: number): boolean {
  return itemStatus(item, nowMs) === "used_up";
}

/** Tests that an item is in force at a time: neither expired nor used up, and not before its start. */
export function isInForce(item: AuthorityItem, nowMs: number): boolean {
  const { starts_at_ms = Number.NEGATIVE_INFINITY } = item.sealed;
  return starts_at_ms <= nowMs && itemStatus(item, nowMs) === "active";
}
