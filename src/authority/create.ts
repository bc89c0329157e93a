import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { ChangeScope, WorkspaceLog } from "../log/workspace-log.ts";
import { getAgent } from "../registry/agents.ts";
import { CREDENTIAL_MARK, createSecret, hashSecret, prefixOf } from "../registry/keys.ts";
import type { AuthorityItem } from "../state/authority.ts";
import type { SealedAuthority } from "../state/control-changes.ts";
import { AuthorityEntity, type AuthorityRow } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { type AuthorityDraft, type ToldAuthority, toldFrom, withoutUndefined } from "./draft.ts";
import { signFederationToken, type TokenSigner } from "./federation-token.ts";
import { KINDS } from "./kinds.ts";
import { assertWithin, parentGrantOf } from "./parent-grant.ts";
import { type AuthorityView, viewFrom } from "./view.ts";

/** Authority with its secret, which is told once and never again. */
export interface CreatedSecret {
  readonly view: AuthorityView;
  /** A credential's key, or a federation token. */
  readonly secret: string;
}

/** The last millisecond that a timestamp can tell: the end of the year 9999. */
const MAX_TIME_MS = 253_402_300_799_999;

function assertActive({ state }: ChangeScope, agentId: string): void {
  const { status } = getAgent(state, agentId);
  if (status === "active") return;
  const message = `agent \`${agentId}\` is \`${status}\` and takes no new authority`;
  throw new ControlPlaneError(ErrorReason.AGENT_INACTIVE, message, { agent_id: agentId, status });
}

interface Span {
  readonly startsAtMs: number | undefined;
  readonly expiresAtMs: number | null;
}

function spanOf(draft: AuthorityDraft, parent: AuthorityItem | undefined, nowMs: number): Span {
  const { kind, lastsSeconds = KINDS[kind].defaultSeconds } = draft;
  const startsAtMs = kind === "temporal_window" ? (draft.startsAtMs ?? nowMs) : undefined;
  if (lastsSeconds === undefined) return { startsAtMs, expiresAtMs: parent?.sealed.expires_at_ms ?? null };
  const expiresAtMs = (startsAtMs ?? nowMs) + lastsSeconds * 1000;
  if (expiresAtMs <= nowMs) throw invalidField("starts_at", "lies so far back that the window would be over already");
  if (expiresAtMs > MAX_TIME_MS) throw invalidField("starts_at", "must let the window end before the year 10000");
  return { startsAtMs, expiresAtMs };
}

/** Checks a draft against the end of the log and gives what is sealed of it. */
async function sealedFrom(
  scope: ChangeScope,
  draft: AuthorityDraft,
  told: ToldAuthority,
  prefix: string | undefined,
): Promise<SealedAuthority> {
  const { grantorAgentId, agentId, parentGrantId } = draft;
  for (const id of [grantorAgentId, agentId]) if (typeof id === "string") assertActive(scope, id);
  const parent = parentGrantId === undefined ? undefined : await parentGrantOf(scope, parentGrantId);
  const { startsAtMs, expiresAtMs } = spanOf(draft, parent, scope.nowMs);
  if (parent !== undefined) assertWithin(parent, told, expiresAtMs);
  const times = withoutUndefined<Pick<SealedAuthority, "expires_at_ms" | "starts_at_ms" | "prefix">>({
    expires_at_ms: expiresAtMs,
    starts_at_ms: startsAtMs,
    prefix,
  });
  return { id: createId(KINDS[draft.kind].prefix), ...told, ...times };
}

async function put(scope: ChangeScope, sealed: SealedAuthority, secretHash: Buffer | null): Promise<AuthorityView> {
  const { transaction, state, nowMs, nextSeq, seal } = scope;
  const row: AuthorityRow = {
    workspaceId: state.workspaceId,
    id: sealed.id,
    kind: sealed.kind,
    agentId: sealed.agent_id,
    grantorAgentId: sealed.grantor_agent_id ?? null,
    sealed,
    createdSeq: nextSeq(),
    createdAtMs: nowMs,
    endedAtMs: null,
    uses: 0,
    secretHash,
  };
  await transaction.insert(AuthorityEntity, { ...row });
  seal({ type: "authority_created", authority: sealed });
  return viewFrom(row, state, nowMs);
}

/**
 * Makes authority of a kind without a secret; it holds from the next decision on. `by` is the key that does it. Throws
 * INVALID_FIELD, AGENT_NOT_FOUND and AGENT_INACTIVE; for a grant with a parent AUTHORITY_NOT_FOUND,
 * PARENT_GRANT_INACTIVE and GRANT_TOO_WIDE as well.
 */
export async function createAuthority(log: WorkspaceLog, by: string, draft: AuthorityDraft): Promise<AuthorityView> {
  const told = toldFrom(draft);
  return log.change(by, async (scope) => put(scope, await sealedFrom(scope, draft, told, undefined), null));
}

/** Makes a credential with a new secret, of which the hash alone is stored. Throws as `createAuthority`. */
export async function createCredential(log: WorkspaceLog, by: string, draft: AuthorityDraft): Promise<CreatedSecret> {
  const told = toldFrom(draft);
  const secret = createSecret(CREDENTIAL_MARK);
  return log.change(by, async (scope) => {
    const sealed = await sealedFrom(scope, draft, told, prefixOf(secret));
    return { view: await put(scope, sealed, hashSecret(secret)), secret };
  });
}

/**
 * Makes a federation token and signs it before anything is durable, so that no record is without its token. Throws as
 * `createAuthority`, and INVALID_FIELD when the token would be too long for a header.
 */
export async function createFederationToken(
  log: WorkspaceLog,
  by: string,
  draft: AuthorityDraft,
  keys: TokenSigner,
): Promise<CreatedSecret> {
  const told = toldFrom(draft);
  return log.change(by, async (scope) => {
    const sealed = await sealedFrom(scope, draft, told, undefined);
    const secret = await signFederationToken(keys, sealed, log.workspaceId, scope.nowMs);
    return { view: await put(scope, sealed, null), secret };
  });
}
