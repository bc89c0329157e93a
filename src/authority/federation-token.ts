import { CompactSign, compactVerify, decodeProtectedHeader, errors, type ProtectedHeaderParameters } from "jose";
import { invalidField } from "../errors.ts";
import { matchesPattern } from "../policy/action-patterns.ts";
import { normaliseName } from "../policy/names.ts";
import { DEFAULT_WORKSPACE_ID } from "../registry/workspaces.ts";
import type { AgentStatus } from "../state/agents.ts";
import type { AuthorityStatus } from "../state/authority-status.ts";
import type { SealedAuthority } from "../state/control-changes.ts";
import type { SigningKey } from "../state/signing-keys.ts";
import { stored } from "../store/database.ts";
import { AuthorityEntity, type AuthorityRow } from "../store/entities.ts";
import { isSameAudience } from "./audience.ts";
import { type AuthoritySource, type AuthorityView, viewFrom } from "./existing-authority.ts";
import type { SigningKeys } from "./signing-key.ts";

/** Keys that sign tokens. */
export type TokenSigner = Pick<SigningKeys, "keyId" | "privateKey" | "sealIn" | "assertMaySign">;
/** Keys that verify tokens. */
type TokenVerifierKeys = Pick<SigningKeys, "find">;

/** Signed claims that identify a token's record. */
interface TokenClaims {
  /** `fed_…`. */
  readonly id: string;
  readonly workspaceId: string;
  readonly agentId: string;
}

/** Result of checking the signature. Whether the token is still valid is in its record. */
type TokenCheck =
  | { readonly kind: "signed"; readonly claims: TokenClaims }
  | { readonly kind: "refused"; readonly reason: "MALFORMED" | "SIGNATURE" };

const ISSUER = "agent-control-plane";
const ALGORITHM = "ES256";
/** Maximum characters of a token: many proxies limit all headers of a request to 8 KiB. */
const MAX_TOKEN_LENGTH = 7_168;

const PARTS = /^([\w-]+)\.([\w-]+)\.([\w-]*)$/;
const MALFORMED: TokenCheck = { kind: "refused", reason: "MALFORMED" };
const NOT_OURS: TokenCheck = { kind: "refused", reason: "SIGNATURE" };

const seconds = (ms: number): number => Math.floor(ms / 1000);

function claimsFrom(sealed: SealedAuthority, workspaceId: string, nowMs: number): object {
  const { id, agent_id, audience, action_types, max_trust_tenths, expires_at_ms } = sealed;
  return {
    iss: ISSUER,
    sub: agent_id,
    aud: audience,
    jti: id,
    iat: seconds(nowMs),
    exp: expires_at_ms === null ? undefined : seconds(expires_at_ms),
    ws: workspaceId,
    action_types,
    max_trust: max_trust_tenths === undefined ? undefined : max_trust_tenths / 10,
  };
}

/**
 * Signs the token of a record: a compact JWS (ES256) with the key's id in its header, so that anyone can verify it with
 * the published key set. Throws INVALID_FIELD when it gets longer than `MAX_TOKEN_LENGTH`.
 */
export async function signFederationToken(
  { keyId, privateKey }: Pick<TokenSigner, "keyId" | "privateKey">,
  sealed: SealedAuthority,
  workspaceId: string,
  nowMs: number,
): Promise<string> {
  const payload = Buffer.from(JSON.stringify(claimsFrom(sealed, workspaceId, nowMs)));
  const header = { alg: ALGORITHM, kid: keyId, typ: "JWT" };
  const token = await new CompactSign(payload).setProtectedHeader(header).sign(privateKey);
  if (token.length <= MAX_TOKEN_LENGTH) return token;
  const description = `make a token of ${token.length} characters; at most ${MAX_TOKEN_LENGTH} fit into a header`;
  throw invalidField("allowed_action_types", description);
}

function headerOf(token: string): ProtectedHeaderParameters | undefined {
  try {
    return decodeProtectedHeader(token);
  } catch {
    return undefined;
  }
}

/** Tests that the unused bits of the last base64url character are zero, so that a token has one spelling only. */
const isCanonical = (part: string): boolean => Buffer.from(part, "base64url").toString("base64url") === part;

/** Returns the workspace that a token claims, before its signature is verified; `default` if it claims none. */
function claimedWorkspace(payload: string): string {
  try {
    const { ws } = JSON.parse(Buffer.from(payload, "base64url").toString());
    return typeof ws === "string" ? ws : DEFAULT_WORKSPACE_ID;
  } catch {
    return DEFAULT_WORKSPACE_ID;
  }
}

/** Tests that a token was issued before its key was retired. */
function isInTime({ retired }: SigningKey, payload: Uint8Array): boolean {
  if (retired === null) return true;
  const { iat } = JSON.parse(Buffer.from(payload).toString());
  return typeof iat === "number" && iat * 1000 <= retired.atMs;
}

function tokenClaimsFrom(payload: Uint8Array): TokenClaims | undefined {
  const { iss, jti: id, ws: workspaceId, sub: agentId } = JSON.parse(Buffer.from(payload).toString());
  const isOurs = iss === ISSUER && typeof id === "string" && id.startsWith("fed_");
  if (!isOurs || typeof workspaceId !== "string" || typeof agentId !== "string") return undefined;
  return { id, workspaceId, agentId };
}

/**
 * Verifies a token by the sealed public keys alone: form, algorithm, key and its retirement, signature. Returns faults
 * instead of throwing; rejects only when the log cannot be read.
 */
async function checkToken(keys: TokenVerifierKeys, token: string): Promise<TokenCheck> {
  const parts = PARTS.exec(token);
  if (parts === null || !parts.slice(1).every(isCanonical)) return MALFORMED;
  const header = headerOf(token);
  if (header === undefined) return MALFORMED;
  const claimed = claimedWorkspace(parts[2] ?? "");
  const key = typeof header.kid === "string" ? await stored(keys.find(claimed, header.kid)) : undefined;
  if (key === undefined) return NOT_OURS;
  try {
    const { payload } = await compactVerify(token, key.publicKey, { algorithms: [ALGORITHM] });
    const claims = tokenClaimsFrom(payload);
    if (!isInTime(key, payload)) return NOT_OURS;
    return claims === undefined ? MALFORMED : { kind: "signed", claims };
  } catch (error) {
    if (error instanceof errors.JOSEError) return NOT_OURS;
    // Signed with the same key, but the payload is not a JSON object.
    if (error instanceof SyntaxError || error instanceof TypeError) return MALFORMED;
    throw error;
  }
}

/** Returns the claims of a token; undefined when the service did not sign it. Rejects when the database cannot be read. */
type TokenVerifier = (token: string) => Promise<TokenClaims | undefined>;

/** Creates the verifier for an authenticator. */
export function createTokenVerifier(keys: TokenVerifierKeys): TokenVerifier {
  return async (token) => {
    const check = await checkToken(keys, token);
    return check.kind === "signed" ? check.claims : undefined;
  };
}

/** A token to verify, with the audience and action type that it must be valid for. */
interface TokenQuestion {
  readonly token: string;
  /** Undefined skips the check. */
  readonly audience: string | undefined;
  /** Undefined skips the check. */
  readonly actionType: string | undefined;
}

/** Reason why a token is not good now. */
type TokenFault =
  | "SIGNATURE"
  | "MALFORMED"
  | "UNKNOWN"
  | "EXPIRED"
  | "ENDED"
  | "USED_UP"
  | "AUDIENCE"
  | "ACTION_TYPE"
  | "AGENT_INACTIVE";

/** Result of verifying a token. */
interface TokenVerdict {
  /** Undefined when the token is valid. */
  readonly fault: TokenFault | undefined;
  /** Its record; undefined when the service did not sign the token or it is another workspace's. */
  readonly view: AuthorityView | undefined;
}

/** Sources that tokens are verified against. */
interface TokenSource extends AuthoritySource {
  readonly keys: TokenVerifierKeys;
}

const FAULT_BY_STATUS: Readonly<Record<AuthorityStatus, TokenFault | undefined>> = {
  active: undefined,
  ended: "ENDED",
  expired: "EXPIRED",
  used_up: "USED_UP",
};

function faultOf(
  { sealed, status }: AuthorityView,
  { audience, actionType }: TokenQuestion,
  agentStatus: AgentStatus | undefined,
): TokenFault | undefined {
  if (status !== "active") return FAULT_BY_STATUS[status];
  if (audience !== undefined && !isSameAudience(audience.trim(), sealed.audience ?? "")) return "AUDIENCE";
  const isGoodFor = (type: string): boolean =>
    (sealed.action_types ?? []).some((pattern) => matchesPattern(pattern, normaliseName(type)));
  if (actionType !== undefined && !isGoodFor(actionType)) return "ACTION_TYPE";
  return agentStatus === "active" ? undefined : "AGENT_INACTIVE";
}

async function recordOf(
  { database }: AuthoritySource,
  workspaceId: string,
  claims: TokenClaims,
): Promise<AuthorityRow | null> {
  if (claims.workspaceId !== workspaceId) return null;
  const where = { workspaceId, id: claims.id, kind: "federation_token", agentId: claims.agentId };
  return stored(database.orm.em.fork().findOne(AuthorityEntity, where));
}

/** Verifies a token against the end of the workspace's log. Returns faults of the token instead of throwing. */
export async function verifyFederationToken(
  source: TokenSource,
  workspaceId: string,
  question: TokenQuestion,
): Promise<TokenVerdict> {
  const { logs, keys } = source;
  const check = await checkToken(keys, question.token);
  if (check.kind === "refused") return { fault: check.reason, view: undefined };
  const row = await recordOf(source, workspaceId, check.claims);
  if (row === null) return { fault: "UNKNOWN", view: undefined };
  const state = await (await logs.of(workspaceId)).caughtUp();
  const view = viewFrom(row, state, Math.max(logs.clock.now(), state.lastAtMs));
  const agentStatus = state.agents.get(check.claims.agentId)?.status;
  return { fault: faultOf(view, question, agentStatus), view };
}
