import { createHash } from "node:crypto";
import { createRemoteJWKSet, decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from "jose";
import { LRUCache } from "lru-cache";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { nameFault } from "../policy/names.ts";
import { personName } from "../registry/person-name.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { McpCaller } from "./caller.ts";
import { readServerJson, readText } from "./reading.ts";

/** Mapping of an issuer's access tokens to agents. */
export interface AccessTokensOptions {
  /** The issuer's identifier: https, or http on this host. */
  readonly issuer: string;
  /** Audience that is accepted besides the resource itself. */
  readonly audience: string | undefined;
  /** Claim that holds an agent's id, or its name. */
  readonly agentClaim: string;
  /** Workspace of the agents. */
  readonly workspaceId: string;
  /** Scope that a token must have. */
  readonly scope: string | undefined;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly log: StoreLog;
}

/** Asymmetric signatures only: a published key must not be able to sign. */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
const CLOCK_TOLERANCE_SECONDS = 5;
/** Milliseconds that one request to the issuer may take, and to wait after a failed request. */
const REQUEST_MS = 5_000;
const RETRY_MS = 2_000;
const MAX_DOCUMENT_BYTES = 1_048_576;
const MAX_TOKEN = 16_384;
/** Number of verified tokens that are cached, and for how long: an agent may be renamed. */
const CACHED_TOKENS = 10_000;
const CACHE_MS = 30_000;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

interface Verified {
  readonly caller: McpCaller;
  readonly audiences: readonly string[];
}

/** Returns KEY_INVALID. */
const tokenInvalid = (why: string, cause?: unknown): ControlPlaneError =>
  new ControlPlaneError(ErrorReason.KEY_INVALID, `the access token ${why}`, {}, { cause });

/**
 * Verifies access tokens of an OAuth 2 authorization server: JSON Web Tokens with the resource as audience (RFC 8707), in the
 * form of RFC 9068 if the server follows it.
 */
export class AccessTokens {
  readonly #options: AccessTokensOptions;
  readonly #verified = new LRUCache<string, Verified>({ max: CACHED_TOKENS, ttl: CACHE_MS });
  #keys: Promise<JWTVerifyGetKey> | undefined;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(options: AccessTokensOptions) {
    this.#options = options;
  }

  /** The issuer's identifier. */
  get issuer(): string {
    return this.#options.issuer;
  }

  /** Scope that a token must have. */
  get scope(): string | undefined {
    return this.#options.scope;
  }

  /** Tests whether a key claims to be a token of this issuer. Does not verify it. */
  claims(key: string): boolean {
    if (key.length > MAX_TOKEN || key.split(".").length !== 3) return false;
    try {
      return decodeJwt(key).iss === this.#options.issuer;
    } catch {
      return false;
    }
  }

  /**
   * Returns the agent of a token. Rejects with KEY_INVALID, SCOPE_MISSING, and with IDENTITY_UNAVAILABLE if the issuer cannot be
   * asked for its keys. `resource` is the URL that the token must be for.
   */
  async callerOf(token: string, resource: string | undefined): Promise<McpCaller> {
    const digest = createHash("sha256").update(token).digest("base64");
    const known = this.#verified.get(digest);
    const verified = known ?? (await this.#verify(token));
    const { caller, audiences } = verified;
    const wanted = [resource, this.#options.audience].filter((each) => each !== undefined);
    if (!wanted.some((each) => audiences.includes(each))) throw tokenInvalid("is for another audience");
    if (caller.expiresAtMs !== null && caller.expiresAtMs + CLOCK_TOLERANCE_SECONDS * 1000 < Date.now()) {
      throw tokenInvalid("has expired");
    }
    if (known === undefined) this.#verified.set(digest, verified);
    return caller;
  }

  async #verify(token: string): Promise<Verified> {
    const { issuer, agentClaim, workspaceId, scope } = this.#options;
    const payload = await this.#payloadOf(token, issuer);
    if (scope !== undefined && !scopesOf(payload).includes(scope)) {
      const text = `the access token lacks the scope \`${scope}\``;
      throw new ControlPlaneError(ErrorReason.SCOPE_MISSING, text, { scope });
    }
    const value = payload[agentClaim];
    if (typeof value !== "string" || value === "" || value.length > 256 || nameFault(value) !== undefined) {
      throw tokenInvalid(`names no agent in its claim \`${agentClaim}\``);
    }
    const log = await this.#options.logs.of(workspaceId);
    const agentId = agentNamed(await log.caughtUp(), value);
    if (agentId === undefined) throw tokenInvalid(`names no agent, or several, in its claim \`${agentClaim}\``);
    const audiences = typeof payload.aud === "string" ? [payload.aud] : (payload.aud ?? []);
    const expiresAtMs = (payload.exp ?? 0) * 1000;
    const keyId = keyIdOf(payload, value);
    const caller = { workspaceId, keyId, role: Role.AGENT, agentId, isKeyBound: true, isEnded: false };
    return { caller: { ...caller, expiresAtMs }, audiences };
  }

  async #payloadOf(token: string, issuer: string): Promise<JWTPayload> {
    const keys = await this.#keySet();
    try {
      const required = { issuer, algorithms: ALGORITHMS, requiredClaims: ["exp", "aud"] };
      return (await jwtVerify(token, keys, { ...required, clockTolerance: CLOCK_TOLERANCE_SECONDS })).payload;
    } catch (error) {
      if (error instanceof errors.JWTExpired) throw tokenInvalid("has expired", error);
      const isAsked = error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError);
      if (isAsked) throw this.#unavailable(error);
      throw tokenInvalid("does not verify", error);
    }
  }

  /** Returns the issuer's keys, found by its metadata (RFC 8414, OpenID Connect Discovery). */
  #keySet(): Promise<JWTVerifyGetKey> {
    if (this.#keys !== undefined) return this.#keys;
    if (performance.now() - this.#failedAt < RETRY_MS) return Promise.reject(this.#unavailable(undefined));
    const found = this.#discover();
    this.#keys = found;
    found.catch(() => {
      this.#keys = undefined;
      this.#failedAt = performance.now();
    });
    return found;
  }

  async #discover(): Promise<JWTVerifyGetKey> {
    const { issuer } = this.#options;
    const base = issuer.replace(/\/$/, "");
    const { origin, pathname } = new URL(base);
    const ofServer = `${origin}/.well-known/oauth-authorization-server${pathname === "/" ? "" : pathname}`;
    let cause: unknown;
    for (const address of [`${base}/.well-known/openid-configuration`, ofServer]) {
      try {
        const document = await readDocument(address);
        if (document.issuer !== issuer) throw new Error(`${address} names another issuer`);
        const jwks = new URL(String(document.jwks_uri));
        if (!isSafe(jwks)) throw new Error(`${address} names keys at an address without TLS`);
        return createRemoteJWKSet(jwks, { timeoutDuration: REQUEST_MS, cooldownDuration: RETRY_MS });
      } catch (error) {
        cause = error;
      }
    }
    throw this.#unavailable(cause);
  }

  #unavailable(cause: unknown): ControlPlaneError {
    if (cause !== undefined) this.#options.log.warn({ cause: String(cause) }, "mcp issuer cannot be asked");
    const text = "the issuer of access tokens cannot be asked for its keys; try again";
    return new ControlPlaneError(ErrorReason.IDENTITY_UNAVAILABLE, text, {}, { cause });
  }
}

const isSafe = ({ protocol, hostname }: URL): boolean =>
  protocol === "https:" || (protocol === "http:" && LOOPBACK.test(hostname));

async function readDocument(address: string): Promise<Record<string, unknown>> {
  const response = await fetch(address, { redirect: "error", signal: AbortSignal.timeout(REQUEST_MS) });
  if (!response.ok) throw new Error(`${address} answered ${response.status}`);
  const document: unknown = await readServerJson(await readText(response.body, MAX_DOCUMENT_BYTES));
  if (typeof document !== "object" || document === null) throw new Error(`${address} is not an object`);
  return document as Record<string, unknown>;
}

/**
 * Names a token for the log: by its issuer and subject, as the person is named who signs in as this subject; without a subject by
 * the agent that it names. Throws KEY_INVALID for a name that could be a person's.
 */
function keyIdOf({ iss, sub }: JWTPayload, agent: string): string {
  const name = personName(iss, sub);
  if (name !== undefined) return name;
  if (sub !== undefined || agent.includes("|")) throw tokenInvalid("has no subject that could be told from others");
  return `oidc:${agent}`;
}

/** Returns the scopes of a token: `scope` (RFC 9068) or `scp`, which some issuers use. */
function scopesOf({ scope, scp }: JWTPayload): readonly string[] {
  const given = scope ?? scp;
  if (Array.isArray(given)) return given.map(String);
  return typeof given === "string" ? given.split(" ") : [];
}

/** Finds an agent by its id, or by its name if exactly one active agent has it. */
function agentNamed({ agents }: WorkspaceState, value: string): string | undefined {
  if (agents.has(value)) return value;
  const named = [...agents.values()].filter(
    ({ status, registration }) => status === "active" && registration.name === value,
  );
  return named.length === 1 ? named[0]?.agentId : undefined;
}
