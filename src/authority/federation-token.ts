import { CompactSign, compactVerify, decodeProtectedHeader, errors, type ProtectedHeaderParameters } from "jose";
import { invalidField } from "../errors.ts";
import type { SealedAuthority } from "../state/control-changes.ts";
import { stored } from "../store/store-fault.ts";
import type { SigningKeys } from "./signing-key.ts";

/** What signs tokens. */
export type TokenSigner = Pick<SigningKeys, "keyId" | "privateKey">;
/** What verifies tokens. */
export type TokenVerifierKeys = Pick<SigningKeys, "publicKeyOf">;

/** Whose token it is, by what the service signed. */
export interface TokenClaims {
  /** `fed_…`. */
  readonly id: string;
  readonly workspaceId: string;
  readonly agentId: string;
}

/** A token that the service signed, or why it is none. Whether it still holds stands in its record. */
export type TokenCheck =
  | { readonly kind: "signed"; readonly claims: TokenClaims }
  | { readonly kind: "refused"; readonly reason: "MALFORMED" | "SIGNATURE" };

const ISSUER = "agent-control-plane";
const ALGORITHM = "ES256";
/** Characters of a token at most: many proxies take 8 KiB for all headers of a call. */
export const MAX_TOKEN_LENGTH = 7_168;

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
 * Signs the token of a record: a compact JWS (ES256) with the key's id in its header, so that anyone verifies it with the
 * published key set alone. Throws INVALID_FIELD when it gets longer than `MAX_TOKEN_LENGTH`.
 */
export async function signFederationToken(
  { keyId, privateKey }: TokenSigner,
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

/** The bits of the last character that no byte needs must be zero: one token has one text. */
const isCanonical = (part: string): boolean => Buffer.from(part, "base64url").toString("base64url") === part;

function tokenClaimsFrom(payload: Uint8Array): TokenClaims | undefined {
  const { iss, jti: id, ws: workspaceId, sub: agentId } = JSON.parse(Buffer.from(payload).toString());
  const isOurs = iss === ISSUER && typeof id === "string" && id.startsWith("fed_");
  if (!isOurs || typeof workspaceId !== "string" || typeof agentId !== "string") return undefined;
  return { id, workspaceId, agentId };
}

/**
 * Verifies a token by the public keys alone: form, algorithm, key, signature. What is wrong with it is told and never
 * thrown; rejects only when a key cannot be read from the database.
 */
export async function checkToken(keys: TokenVerifierKeys, token: string): Promise<TokenCheck> {
  const parts = PARTS.exec(token);
  if (parts === null || !parts.slice(1).every(isCanonical)) return MALFORMED;
  const header = headerOf(token);
  if (header === undefined) return MALFORMED;
  const key = typeof header.kid === "string" ? await stored(keys.publicKeyOf(header.kid)) : undefined;
  if (key === undefined) return NOT_OURS;
  try {
    const { payload } = await compactVerify(token, key, { algorithms: [ALGORITHM] });
    const claims = tokenClaimsFrom(payload);
    return claims === undefined ? MALFORMED : { kind: "signed", claims };
  } catch (error) {
    if (error instanceof errors.JOSEError) return NOT_OURS;
    // Something else that the key signed, whose payload is no JSON object.
    if (error instanceof SyntaxError || error instanceof TypeError) return MALFORMED;
    throw error;
  }
}

/** Finds whose token a text is; undefined when the service did not sign it. Rejects as `checkToken`. */
export type TokenVerifier = (token: string) => Promise<TokenClaims | undefined>;

/** Creates the verifier that an authenticator asks. */
export function createTokenVerifier(keys: TokenVerifierKeys): TokenVerifier {
  return async (token) => {
    const check = await checkToken(keys, token);
    return check.kind === "signed" ? check.claims : undefined;
  };
}
