import type { AuthorityItem } from "./authority.ts";

/** Where a piece of authority stands; the words of the proto enum `AuthorityStatus`. */
export type AuthorityStanding = "active" | "ended" | "expired" | "used_up";

/** What the standing of a piece of authority follows from. */
export interface StandingFacts {
  readonly endedAtMs: number | null;
  readonly expiresAtMs: number | null;
  readonly maxUses: number | null;
  readonly uses: number;
}

/** Where a piece of authority stands at a time. A window that has not opened yet is active: it has not ended. */
export function standingOf({ endedAtMs, expiresAtMs, maxUses, uses }: StandingFacts, nowMs: number): AuthorityStanding {
  if (endedAtMs !== null) return "ended";
  if (expiresAtMs !== null && expiresAtMs <= nowMs) return "expired";
  return maxUses !== null && uses >= maxUses ? "used_up" : "active";
}

/** Where an item of the book, which has not ended, stands at a time. */
export function standingOfItem({ sealed, uses }: AuthorityItem, nowMs: number): AuthorityStanding {
  return standingOf({ endedAtMs: null, expiresAtMs: sealed.expires_at_ms, maxUses: sealed.max_uses, uses }, nowMs);
}

/** Whether an item holds at a time: it has neither expired nor is it used up, and a window is open. */
export function holds(item: AuthorityItem, nowMs: number): boolean {
  const { starts_at_ms = Number.NEGATIVE_INFINITY } = item.sealed;
  return starts_at_ms <= nowMs && standingOfItem(item, nowMs) === "active";
}
