import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { nameFault, toolNameFault } from "../policy/names.ts";
import type { Decision } from "../policy/types.ts";
import { getAgent } from "../registry/agents.ts";
import { checkedName, checkedPatterns, checkedText } from "../registry/checked-text.ts";
import { CREDENTIAL_MARK, createSecret, hashSecret, prefixOf } from "../registry/keys.ts";
import type { AuthorityItem } from "../state/authority.ts";
import type { AuthorityKind, OutsideContract, SealedAuthority, SealedPlanStep } from "../state/control-changes.ts";
import { AuthorityEntity, type AuthorityRow } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { assertAgentMayMake, assertRoomForSession } from "./by-agent.ts";
import { type AuthorityView, viewFrom } from "./existing-authority.ts";
import { signFederationToken, type TokenSigner } from "./federation-token.ts";
import { KIND_TRAITS } from "./kind-traits.ts";
import { assertWithin, getParentGrant, type RequestedAuthority, secondsOf } from "./parent-grant.ts";
import { assertPlanCompiles, coverableSession } from "./plan.ts";

/** A request for new authority. Which members apply depends on the kind; the others are undefined. */
export interface AuthorityDraft {
  readonly kind: AuthorityKind;
  /** The agent that may use it: a grant's grantee. Null for an MCP tool policy that holds for every agent. */
  readonly agentId: string | null;
  /** True if the agent makes it for itself: a session, or a contract of one. Default false. */
  readonly isByAgent?: boolean | undefined;
  /** Lifetime; undefined for the kind's default, or for the parent grant's expiry. */
  readonly lastsSeconds?: number | undefined;
  /** Maximum number of actions allowed under it; undefined: unlimited. */
  readonly maxUses?: number | undefined;
  /** Session's purpose, credential's name, window's reason, contract's goal. */
  readonly text?: string | undefined;
  /** Grant, window, contract, token: action-type patterns. */
  readonly actionTypes?: readonly string[] | undefined;
  /** Grant: the agent that lends. */
  readonly grantorAgentId?: string | undefined;
  /** Grant: the grant that it passes on. */
  readonly parentGrantId?: string | undefined;
  /** Window: time at which it opens, epoch milliseconds; undefined means at once. */
  readonly startsAtMs?: number | undefined;
  /** Contract: its tools; empty for any. */
  readonly tools?: readonly string[] | undefined;
  /** Contract: its plan. */
  readonly steps?: readonly SealedPlanStep[] | undefined;
  /** Contract: the session whose actions it covers. */
  readonly sessionId?: string | undefined;
  /** Contract: decision on an action that it covers and does not admit; undefined means `block`. */
  readonly outside?: OutsideContract | undefined;
  /** Token: the cap on the agent's trust. */
  readonly maxTrustTenths?: number | undefined;
  /** Token: the intended recipient. */
  readonly audience?: string | undefined;
  /** Policy: the MCP server; `*` for any. */
  readonly server?: string | undefined;
  /** Policy: the tool pattern. */
  readonly tool?: string | undefined;
  /** Policy: the decision. */
  readonly decision?: Decision | undefined;
}

/** `T` with undefined in place of missing members. */
type Members<T> = { readonly [K in keyof Required<T>]: T[K] | undefined };

/** Drops undefined members: sealed JSON has no undefined. */
function withoutUndefined<T extends object>(members: Members<T>): T {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;
}

function toolPatternFrom(text: string): string {
  const pattern = text.trim();
  const prefix = pattern.replace(/\*$/, "");
  const fault = pattern === "*" ? undefined : toolNameFault(prefix);
  if (fault !== undefined) throw invalidField("tool", `${fault}; a \`*\` may end it`);
  return pattern;
}

function serverFrom(text: string): string {
  const server = text.trim();
  const fault = server === "" ? "must not be blank" : nameFault(server);
  if (fault !== undefined) throw invalidField("server", fault);
  // Elsewhere a star matches the rest of a name; here it would silently match nothing.
  if (server === "*" || !server.includes("*")) return server;
  throw invalidField("server", "must be the name of a server, or `*` alone for any");
}

const toolsFrom = (tools: readonly string[]): string[] =>
  tools.map((text, index) => {
    const tool = text.trim();
    const fault = toolNameFault(tool);
    if (fault !== undefined) throw invalidField(`allowed_tools[${index}]`, fault);
    return tool;
  });

function optionalText(field: string | undefined, text: string | undefined): string | undefined {
  return field === undefined || text === undefined || text === "" ? undefined : checkedText(field, text);
}

const mapped = <T, R>(value: T | undefined, from: (value: T) => R): R | undefined =>
  value === undefined ? undefined : from(value);

/** Checks the fields that need no state, and returns the fields to seal. Throws INVALID_FIELD. */
function requestedFrom(draft: AuthorityDraft): RequestedAuthority {
  const { kind, agentId, grantorAgentId } = draft;
  if (draft.isByAgent === true) assertAgentMayMake(draft);
  const { textField, actionTypesField = "action_types" } = KIND_TRAITS[kind];
  if (grantorAgentId !== undefined && grantorAgentId === agentId) {
    throw invalidField("grantee_agent_id", "must be another agent than the grantor");
  }
  return withoutUndefined<RequestedAuthority>({
    kind,
    agent_id: agentId,
    by_agent: draft.isByAgent === true ? true : undefined,
    max_uses: draft.maxUses ?? null,
    text: optionalText(textField, draft.text),
    action_types: mapped(draft.actionTypes, (patterns) => checkedPatterns(actionTypesField, patterns)),
    grantor_agent_id: grantorAgentId,
    parent_grant_id: draft.parentGrantId,
    tools: mapped(draft.tools, toolsFrom),
    steps: draft.steps,
    session_id: draft.sessionId,
    outside: draft.outside,
    max_trust_tenths: draft.maxTrustTenths,
    audience: mapped(draft.audience, (audience) => checkedName("audience", audience)),
    server: mapped(draft.server, serverFrom),
    tool: mapped(draft.tool, toolPatternFrom),
    decision: draft.decision,
  });
}

/** Authority with its secret, which is shown once and never again. */
interface CreatedSecret {
  readonly view: AuthorityView;
  /** A credential's key, or a federation token. */
  readonly secret: string;
}

/** Latest time of a proto timestamp: the end of the year 9999. */
const MAX_TIME_MS = 253_402_300_799_999;

function assertActive({ state }: ChangeScope, agentId: string): void {
  const { status } = getAgent(state, agentId);
  if (status === "active") return;
  const message = `agent \`${agentId}\` is \`${status}\` and takes no new authority`;
  throw new ControlPlaneError(ErrorReason.AGENT_INACTIVE, message, { agent_id: agentId, status });
}

interface Lifetime {
  readonly startsAtMs: number | undefined;
  readonly expiresAtMs: number | null;
  /** Of a grant that expires. */
  readonly ttlSeconds: number | undefined;
}

/**
 * Returns the lifetime of a grant. A child ends with its parent if it asks for none, or for no longer than its parent was given for,
 * of which a part is over.
 */
function grantLifetime(lastsSeconds: number | undefined, parent: AuthorityItem | undefined, nowMs: number): Lifetime {
  const parentSeconds = parent === undefined ? undefined : secondsOf(parent);
  const parentEndMs = parent?.sealed.expires_at_ms ?? null;
  const ttlSeconds = lastsSeconds ?? parentSeconds;
  if (lastsSeconds === undefined) return { startsAtMs: undefined, expiresAtMs: parentEndMs, ttlSeconds };
  const asked = nowMs + lastsSeconds * 1000;
  const isCut = parentEndMs !== null && parentSeconds !== undefined && lastsSeconds <= parentSeconds;
  return { startsAtMs: undefined, expiresAtMs: isCut ? Math.min(asked, parentEndMs) : asked, ttlSeconds };
}

function lifetimeOf(draft: AuthorityDraft, parent: AuthorityItem | undefined, nowMs: number): Lifetime {
  const { kind, lastsSeconds = KIND_TRAITS[kind].defaultSeconds } = draft;
  if (kind === "grant") return grantLifetime(lastsSeconds, parent, nowMs);
  const ttlSeconds = undefined;
  const startsAtMs = kind === "temporal_window" ? (draft.startsAtMs ?? nowMs) : undefined;
  if (lastsSeconds === undefined) return { startsAtMs, expiresAtMs: null, ttlSeconds };
  const expiresAtMs = (startsAtMs ?? nowMs) + lastsSeconds * 1000;
  if (expiresAtMs <= nowMs) throw invalidField("starts_at", "lies so far back that the window would be over already");
  if (expiresAtMs > MAX_TIME_MS) throw invalidField("starts_at", "must let the window end before the year 10000");
  return { startsAtMs, expiresAtMs, ttlSeconds };
}

/** Checks a draft against the state at the end of the log, and returns the authority to seal. */
async function checkedAuthority(
  scope: ChangeScope,
  draft: AuthorityDraft,
  requested: RequestedAuthority,
  prefix: string | undefined,
): Promise<SealedAuthority> {
  const { grantorAgentId, agentId, parentGrantId } = draft;
  for (const id of [grantorAgentId, agentId]) if (typeof id === "string") assertActive(scope, id);
  if (draft.kind === "session" && draft.isByAgent === true) assertRoomForSession(scope, agentId ?? "");
  const parent = parentGrantId === undefined ? undefined : await getParentGrant(scope, parentGrantId);
  const session = draft.sessionId === undefined ? undefined : coverableSession(scope, draft, draft.sessionId);
  assertPlanCompiles(scope, draft.steps ?? []);
  const { startsAtMs, ttlSeconds, ...lifetime } = lifetimeOf(draft, parent, scope.nowMs);
  const expiresAtMs = session === undefined ? lifetime.expiresAtMs : session.sealed.expires_at_ms;
  if (parent !== undefined) assertWithin(parent, requested, expiresAtMs);
  const times = withoutUndefined<Pick<SealedAuthority, "expires_at_ms" | "starts_at_ms" | "ttl_seconds" | "prefix">>({
    expires_at_ms: expiresAtMs,
    starts_at_ms: startsAtMs,
    ttl_seconds: ttlSeconds,
    prefix,
  });
  return { id: createId(KIND_TRAITS[draft.kind].prefix), ...requested, ...times };
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
    stepCalls: null,
    secretHash,
  };
  await transaction.insert(AuthorityEntity, { ...row });
  seal({ type: "authority_created", authority: sealed });
  return viewFrom(row, state, nowMs);
}

/**
 * Creates authority of a kind without a secret, in force for the next decision. `by` is the caller's key. Throws
 * INVALID_FIELD, AGENT_NOT_FOUND and AGENT_INACTIVE; for a grant with a parent AUTHORITY_NOT_FOUND,
 * PARENT_GRANT_INACTIVE and GRANT_TOO_WIDE as well.
 */
export async function createAuthority(log: WorkspaceLog, by: string, draft: AuthorityDraft): Promise<AuthorityView> {
  const requested = requestedFrom(draft);
  return log.change(by, async (scope) => put(scope, await checkedAuthority(scope, draft, requested, undefined), null));
}

/** Creates a credential with a random secret, of which only the hash is stored. Throws as `createAuthority`. */
export async function createCredential(log: WorkspaceLog, by: string, draft: AuthorityDraft): Promise<CreatedSecret> {
  const requested = requestedFrom(draft);
  const secret = createSecret(CREDENTIAL_MARK);
  return log.change(by, async (scope) => {
    const sealed = await checkedAuthority(scope, draft, requested, prefixOf(secret));
    return { view: await put(scope, sealed, hashSecret(secret)), secret };
  });
}

/**
 * Creates a federation token, signed before its record is durable, so that no record exists without a token. Throws as
 * `createAuthority`, and INVALID_FIELD when the token would be too long for a header.
 */
export async function createFederationToken(
  log: WorkspaceLog,
  by: string,
  draft: AuthorityDraft,
  keys: TokenSigner,
): Promise<CreatedSecret> {
  const requested = requestedFrom(draft);
  await keys.sealIn(log);
  return log.change(by, async (scope) => {
    const sealed = await checkedAuthority(scope, draft, requested, undefined);
    keys.assertMaySign(scope.state);
    const secret = await signFederationToken(keys, sealed, log.workspaceId, scope.nowMs);
    return { view: await put(scope, sealed, null), secret };
  });
}
