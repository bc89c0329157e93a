import { type AuthorityStatus, authorityStatus } from "../state/authority-status.ts";
import type { SealedAuthority } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { AuthorityRow } from "../store/entities.ts";

/** A piece of authority as people see it. */
export interface AuthorityView {
  readonly sealed: SealedAuthority;
  readonly createdAtMs: number;
  /** Epoch milliseconds; null while it was neither ended nor revoked. */
  readonly endedAtMs: number | null;
  /** Actions that were allowed under it. */
  readonly uses: number;
  readonly status: AuthorityStatus;
}

/** What a row shows at a time. The table's uses are final once it ended; until then the state's are newer. */
export function viewFrom(row: AuthorityRow, { authority }: WorkspaceState, nowMs: number): AuthorityView {
  const sealed = row.sealed as SealedAuthority;
  const endedAtMs = row.endedAtMs ?? null;
  const uses = endedAtMs === null ? (authority.get(row.id)?.uses ?? row.uses) : row.uses;
  const facts = { endedAtMs, expiresAtMs: sealed.expires_at_ms, maxUses: sealed.max_uses, uses };
  return { sealed, createdAtMs: row.createdAtMs, endedAtMs, uses, status: authorityStatus(facts, nowMs) };
}
