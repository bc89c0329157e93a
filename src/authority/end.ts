import type { ChangeScope, WorkspaceLog } from "../log/workspace-log.ts";
import type { AuthorityKind } from "../state/control-changes.ts";
import { AuthorityEntity, type AuthorityRow } from "../store/entities.ts";
import { authorityNotFound } from "./kinds.ts";
import { type AuthorityView, viewFrom } from "./view.ts";

/** Which piece of authority is meant. */
export interface AuthorityName {
  readonly kind: AuthorityKind;
  readonly id: string;
}

/** The uses of all that ends with a piece of authority, by id: of a grant the child grants too. */
function endingWith({ state }: ChangeScope, { id, uses }: AuthorityRow): Map<string, number> {
  const ending = new Map([[id, uses]]);
  for (const item of state.authority.withChildren(id)) ending.set(item.sealed.id, item.uses);
  return ending;
}

async function endNow(scope: ChangeScope, row: AuthorityRow): Promise<AuthorityView> {
  const { transaction, state, nowMs, seal } = scope;
  const { workspaceId } = state;
  const ending = endingWith(scope, row);
  for (const [id, uses] of ending) {
    await transaction.nativeUpdate(AuthorityEntity, { workspaceId, id, endedAtMs: null }, { endedAtMs: nowMs, uses });
  }
  seal({
    type: "authority_ended",
    kind: row.kind as AuthorityKind,
    agent_id: row.agentId ?? null,
    ids: [...ending.keys()],
  });
  return viewFrom({ ...row, endedAtMs: nowMs, uses: ending.get(row.id) ?? row.uses }, state, nowMs);
}

/**
 * Ends a piece of authority from the next decision on, and with a grant its child grants; what has ended stays as it is and
 * nothing is sealed. Throws AUTHORITY_NOT_FOUND, for an id of another kind as well. For a credential or a token the caller
 * MUST make its authenticator forget the workspace.
 */
export function endAuthority(log: WorkspaceLog, by: string, { kind, id }: AuthorityName): Promise<AuthorityView> {
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs } = scope;
    const row = await transaction.findOne(AuthorityEntity, { workspaceId: state.workspaceId, id, kind });
    if (row === null) throw authorityNotFound(kind, id);
    return (row.endedAtMs ?? null) === null ? endNow(scope, row) : viewFrom(row, state, nowMs);
  });
}
