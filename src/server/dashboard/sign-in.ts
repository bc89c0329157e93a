import type { IncomingMessage, ServerResponse } from "node:http";
import { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import type { Caller } from "../../api/context.ts";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import { type Authenticate, keyInvalid } from "../admission.ts";
import { methodNotAllowed } from "../errors.ts";
import type { HttpRoute } from "../http.ts";
import { headerOf, sendJson } from "../http-reply.ts";
import { REQUEST_ID_HEADER } from "../incoming-call.ts";
import type { WrongKeys } from "../wrong-keys.ts";
import { assertCsrfToken, CSRF_HEADER, csrfTokenOf, type SignInCookie } from "./cookie.ts";
import { assertSameOrigin, jsonOf } from "./request-body.ts";

/** Store of sign-ins, as the routes use it. */
export interface SignInStore {
  begin(draft: {
    readonly workspaceId: string;
    readonly holder: string;
    readonly role: Role;
    /** Null for the holder of a key. */
    readonly person: null;
  }): Promise<{ readonly secret: string; readonly expiresAtMs: number }>;
  end(secret: string, caller: Caller): Promise<void>;
  endAll(caller: Caller): Promise<void>;
}

/** Options of the routes. */
export interface SignInOptions {
  readonly authenticate: Authenticate;
  readonly signIns: SignInStore;
  /** Returns the name that stands beside the id of a caller; undefined if it has none. */
  readonly nameOf: (caller: Caller) => Promise<string | undefined>;
  readonly clock: { now(): number };
  readonly cookie: SignInCookie;
  /** Address at which browsers reach the service; undefined means the address of the request. */
  readonly publicUrl: string | undefined;
  /** Sign-in by OpenID Connect, as the page offers it; undefined means that only keys sign in. */
  readonly oidc?: OidcOffer | undefined;
  readonly wrongKeys: Pick<WrongKeys, "refusal">;
}

/** A way to sign in besides keys. */
export interface OidcOffer {
  /** Label of its button. */
  readonly label: string;
  /** Address that begins the sign-in. It is below `ACP_PUBLIC_URL`, to which the cookies will belong. */
  readonly url: string;
}

const PREFIX = "/dashboard/";

/** Signed-in person or key, as the page reads it. */
interface SignedIn {
  readonly key_id: string;
  /** Email address or name of the person, or the key's owner or name; null if there is none. */
  readonly name: string | null;
  readonly workspace_id: string;
  readonly role: string;
  readonly csrf_token: string;
  readonly expires_at: string | null;
}

/**
 * Serves `POST /dashboard/sign-in` with a key, `GET /dashboard/session`, and `POST /dashboard/sign-out` with `everywhere`. A
 * sign-in sets a cookie that the API accepts instead of a key; calls with the cookie carry the `csrf_token` of the session.
 */
export function signInRoute(options: SignInOptions): HttpRoute {
  return {
    prefix: PREFIX.slice(0, -1),
    async handle(request, response) {
      const path = (request.url ?? "").split("?", 1)[0] ?? "";
      const answer = ANSWERS.get(path.slice(PREFIX.length));
      if (answer === undefined) return false;
      if (request.method !== answer.method) throw methodNotAllowed(request.method ?? "", answer.method);
      await answer.serve(request, response, options);
      return true;
    },
  };
}

type Serve = (request: IncomingMessage, response: ServerResponse, options: SignInOptions) => Promise<void>;

const ANSWERS: ReadonlyMap<string, { readonly method: string; readonly serve: Serve }> = new Map([
  ["sign-in", { method: "POST", serve: signIn }],
  ["session", { method: "GET", serve: showSession }],
  ["sign-out", { method: "POST", serve: signOut }],
]);

async function signIn(request: IncomingMessage, response: ServerResponse, options: SignInOptions): Promise<void> {
  assertSameOrigin(request, options.publicUrl);
  const { key } = await jsonOf(request);
  if (typeof key !== "string" || key === "") throw invalidField("key", "is required: an API key as text");
  const caller = await options.authenticate(key);
  if (caller === undefined || caller.isEnded === true || caller.keyId.startsWith("crd_")) {
    throw tooMany(request, "sign-in", options) ?? keyInvalid();
  }
  if (caller.role === Role.AGENT) throw agentsStayOut();
  const { workspaceId, keyId: holder, role } = caller;
  const { secret, expiresAtMs } = await options.signIns.begin({ workspaceId, holder, role, person: null });
  const until = Math.min(expiresAtMs, caller.expiresAtMs ?? Number.POSITIVE_INFINITY);
  const session = signedIn({ ...caller, expiresAtMs: until }, await options.nameOf(caller), secret);
  sendJson(response, 200, JSON.stringify(session), {
    "set-cookie": options.cookie.text(secret, Math.max(0, Math.floor((until - options.clock.now()) / 1000))),
  });
}

/** Counts a wrong key or cookie of an address. Returns TOO_MANY_WRONG_KEYS once it has used up its share. */
function tooMany(request: IncomingMessage, method: string, { wrongKeys }: SignInOptions) {
  const requestId = headerOf(request, REQUEST_ID_HEADER) ?? "";
  return wrongKeys.refusal({ address: request.socket.remoteAddress, requestId, method });
}

function agentsStayOut(): ControlPlaneError {
  const text = "the dashboard is for keys of the role admin, operator or auditor, not `agent`";
  return new ControlPlaneError(ErrorReason.ROLE_NOT_ALLOWED, text, { role: "agent" });
}

function signedIn(
  { keyId, workspaceId, role, expiresAtMs = null }: Caller,
  name: string | undefined,
  secret: string,
): SignedIn {
  return {
    key_id: keyId,
    name: name ?? null,
    workspace_id: workspaceId,
    role: (Role[role] ?? "").toLowerCase(),
    csrf_token: csrfTokenOf(secret),
    expires_at: expiresAtMs === null ? null : new Date(expiresAtMs).toISOString(),
  };
}

/** Responds with the signed-in holder (`null` if nobody is, so that the page can tell this from a fault) and the offered sign-ins. */
async function showSession(request: IncomingMessage, response: ServerResponse, options: SignInOptions): Promise<void> {
  const { cookie, nameOf, oidc = null } = options;
  const secret = cookie.secretIn(headerOf(request, "cookie"));
  const caller = secret === undefined ? undefined : await holderOf(secret, request, response, options);
  const session = secret === undefined || caller === undefined ? null : signedIn(caller, await nameOf(caller), secret);
  sendJson(response, 200, JSON.stringify({ session, oidc }));
}

/**
 * Finds the holder of a cookie's secret. Removes a cookie that opens nothing, so that a browser sends it once only, and counts it
 * as a wrong key: throws TOO_MANY_WRONG_KEYS.
 */
async function holderOf(
  secret: string,
  request: IncomingMessage,
  response: ServerResponse,
  options: SignInOptions,
): Promise<Caller | undefined> {
  const caller = await options.authenticate(secret);
  if (caller !== undefined) return caller;
  response.setHeader("set-cookie", options.cookie.cleared);
  const refusal = tooMany(request, "session", options);
  if (refusal !== undefined) throw refusal;
  return undefined;
}

async function signOut(request: IncomingMessage, response: ServerResponse, options: SignInOptions): Promise<void> {
  const { everywhere = false } = await jsonOf(request);
  if (typeof everywhere !== "boolean") throw invalidField("everywhere", "must be true or false");
  const secret = options.cookie.secretIn(headerOf(request, "cookie"));
  if (secret !== undefined) {
    assertCsrfToken(secret, headerOf(request, CSRF_HEADER));
    const caller = await holderOf(secret, request, response, options);
    if (caller !== undefined) await (everywhere ? options.signIns.endAll(caller) : options.signIns.end(secret, caller));
  }
  sendJson(response, 200, JSON.stringify({ session: null }), { "set-cookie": options.cookie.cleared });
}
