import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import { methodNotAllowed } from "../errors.ts";
import type { HttpRoute } from "../http.ts";
import { headerOf, sendText } from "../http-reply.ts";
import { REQUEST_ID_HEADER } from "../incoming-call.ts";
import { WrongKeys } from "../wrong-keys.ts";
import { isScreenPath } from "./assets.ts";
import { cookieValue, type SignInCookie } from "./cookie.ts";
import { type FlowChecks, newChecks, OidcIssuer } from "./oidc-issuer.ts";
import { sendChoice, sendFault, sendSignedIn } from "./oidc-pages.ts";
import {
  type GroupRule,
  groupsFrom,
  type Membership,
  membershipsFrom,
  type Person,
  type PersonLabels,
  type PersonReaders,
  personFrom,
} from "./oidc-person.ts";
import { OidcRefusal } from "./oidc-refusal.ts";
import { assertSameOrigin, textOf } from "./request-body.ts";

/** Encrypts and authenticates the contents of cookies under a key that all processes share. `place` separates kinds of text. */
export interface CookieCipher {
  encrypt(workspaceId: string, place: string, text: string): Buffer;
  /** Throws if the text was encrypted for another place or by another service, or was changed. */
  decrypt(workspaceId: string, place: string, encrypted: Uint8Array): string;
}

/** Options of the sign-in by OpenID Connect. */
export interface OidcOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scope: string;
  readonly groupsClaim: string;
  readonly groups: readonly GroupRule[];
  /** Address at which browsers reach the service. */
  readonly publicUrl: string;
  readonly cipher: CookieCipher;
  readonly signIns: PeopleSignIns;
  readonly cookie: SignInCookie;
  readonly clock: { now(): number };
  readonly people: PersonReaders;
  readonly log: Logger;
}

/** Store of sign-ins of people. */
export interface PeopleSignIns {
  /** Signs in. Rejects with PERSON_DEACTIVATED. */
  begin(draft: PersonSignIn & { readonly person: { readonly standing: Standing } }): Promise<NewSignIn>;
  /** Signs in by a choice; undefined if the choice was used before, on any process. */
  beginOnce(choice: UsedOnce, draft: PersonSignIn): Promise<NewSignIn | undefined>;
  /** Keeps what is known of a person until they have chosen. */
  keepStanding(choice: UsedOnce, standing: Standing): Promise<void>;
  /** Returns the workspaces in which a person has a role, and whether an admin deactivated them in any. */
  memberships(
    name: string,
    byGroups: readonly Membership[],
  ): Promise<{ readonly open: readonly OpenMembership[]; readonly isDeactivated: boolean }>;
}

interface PersonSignIn extends Membership {
  readonly holder: string;
  readonly person: { readonly labels: PersonLabels; readonly groupRole: Role | null };
}

/** A person's standing at their issuer. */
interface Standing {
  readonly groups: readonly string[];
  /** Asks the issuer again; null from an issuer that gives none. */
  readonly refreshToken: string | null;
}

/** A role in a workspace, with that of the groups alone; null if these give none. */
interface OpenMembership extends Membership {
  readonly groupRole: Role | null;
}

/** Identity of a choice, which is good once, and the end of its time, epoch milliseconds. */
interface UsedOnce {
  readonly id: string;
  readonly untilMs: number;
}

/** State in the browser between start and callback, encrypted. */
interface Flow extends FlowChecks {
  readonly returnTo: string;
  readonly untilMs: number;
}

/** State in the browser while a person chooses a workspace, encrypted. */
interface Choice extends UsedOnce {
  readonly person: Person;
  readonly memberships: readonly OpenMembership[];
  readonly returnTo: string;
}

/** A person who is signed in, and the screen that the browser returns to. */
interface SignedInPerson {
  readonly holder: string;
  readonly workspaceId: string;
  readonly returnTo: string;
}

/** A sign-in with the secret of its cookie. */
interface NewSignIn {
  readonly secret: string;
  readonly expiresAtMs: number;
}

const PREFIX = "/dashboard/oidc";
/** Time for the issuer's pages, and for the choice of a workspace, milliseconds. */
const FLOW_MS = 600_000;
const CHOICE_MS = 300_000;
const FLOW_COOKIE = "acp_oidc";
const CHOICE_COOKIE = "acp_oidc_choice";
const MAX_RETURN_TO = 500;
const MAX_QUERY = 8_192;
/** Maximum codes that are exchanged at once. */
const MAX_EXCHANGES = 32;
/** Maximum workspaces that are offered: more do not fit into a cookie. */
const MAX_OFFERED = 20;

/**
 * Signs people in by OpenID Connect, with the authorization code flow and PKCE. `start` sends the browser to the issuer, with a
 * cookie that only this flow's `callback` accepts. `choose` takes the choice of a person with several workspaces. After a fault
 * nobody is signed in, and a page names the fault.
 */
export class OidcSignIn implements HttpRoute {
  readonly prefix = PREFIX;
  readonly #options: OidcOptions;
  /** The issuer, which is asked again for memberships. */
  readonly issuer: OidcIssuer;
  readonly #wrongCodes: WrongKeys;
  readonly #isSecure: boolean;
  #exchanges = 0;

  constructor(options: OidcOptions) {
    this.#options = options;
    const { issuer: url, publicUrl } = options;
    this.issuer = new OidcIssuer({ ...options, url, redirectUri: `${publicUrl}${PREFIX}/callback` });
    this.#wrongCodes = new WrongKeys(options.log);
    this.#isSecure = publicUrl.startsWith("https:");
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const [path = "", query = ""] = splitOnce(request.url ?? "", "?");
    const name = path.slice(PREFIX.length + 1);
    const method = METHODS.get(name);
    if (method === undefined) return false;
    if (request.method !== method) throw methodNotAllowed(request.method ?? "", method);
    try {
      if (query.length > MAX_QUERY) throw new OidcRefusal("unproven", "QUERY_TOO_LONG");
      const parameters = new URLSearchParams(query);
      if (name === "start") await this.#start(parameters, response);
      else if (name === "callback") await this.#callback(request, parameters, response);
      else await this.#choose(request, response);
    } catch (error) {
      this.#refuse(error, response);
    }
    return true;
  }

  async #start(parameters: URLSearchParams, response: ServerResponse): Promise<void> {
    const returnTo = screenFrom(parameters.get("return_to") ?? "/overview");
    const checks = newChecks();
    const url = await this.issuer.authorizationUrl(checks);
    const flow: Flow = { ...checks, returnTo, untilMs: this.#options.clock.now() + FLOW_MS };
    response.setHeader("set-cookie", this.#cookie(FLOW_COOKIE, flow, FLOW_MS, "Lax"));
    sendText(response, 303, "text/plain", "", { location: url.href, "referrer-policy": "no-referrer" });
  }

  async #callback(request: IncomingMessage, answer: URLSearchParams, response: ServerResponse): Promise<void> {
    const flow = this.#opened<Flow>(request, FLOW_COOKIE);
    if (flow === undefined) throw new OidcRefusal("expired");
    if (answer.getAll("state").length !== 1 || answer.get("state") !== flow.state) throw new OidcRefusal("wrong-state");
    // From here on the flow is used up, whatever its result.
    response.setHeader("set-cookie", this.#clear(FLOW_COOKIE, "Lax"));
    const { claims, refreshToken = null } = await this.#exchange(request, answer, flow);
    const person = personFrom(claims, this.#options.people);
    if (person === undefined) throw new OidcRefusal("no-name");
    const claim = claims[this.#options.groupsClaim];
    const memberships = await this.#memberships(person, claim);
    const standing = { groups: groupsFrom(claim), refreshToken };
    const [first] = memberships;
    const { returnTo } = flow;
    const { signIns } = this.#options;
    if (first !== undefined && memberships.length === 1) {
      const { workspaceId, role, groupRole } = first;
      const { name: holder, labels } = person;
      const signIn = await signIns.begin({ workspaceId, role, holder, person: { labels, groupRole, standing } });
      return this.#welcome(response, signIn, { holder, workspaceId, returnTo });
    }
    const untilMs = this.#options.clock.now() + CHOICE_MS;
    const choice: Choice = { id: randomUUID(), person, memberships, returnTo, untilMs };
    await signIns.keepStanding(choice, standing);
    const cookies = [this.#clear(FLOW_COOKIE, "Lax"), this.#cookie(CHOICE_COOKIE, choice, CHOICE_MS, "Strict")];
    sendChoice(response, person, memberships, roleWord, cookies);
  }

  async #exchange(request: IncomingMessage, answer: URLSearchParams, checks: FlowChecks) {
    if (this.#exchanges >= MAX_EXCHANGES) throw new OidcRefusal("busy");
    this.#exchanges++;
    try {
      return await this.issuer.exchange(answer, checks);
    } catch (error) {
      const isGuess = error instanceof OidcRefusal && error.fault === "unproven";
      const requestId = headerOf(request, REQUEST_ID_HEADER) ?? "";
      const call = { address: request.socket.remoteAddress, requestId, method: "oidc/callback" };
      if (isGuess && this.#wrongCodes.refusal(call) !== undefined) throw new OidcRefusal("busy");
      throw error;
    } finally {
      this.#exchanges--;
    }
  }

  async #memberships({ name }: Person, claim: unknown): Promise<readonly OpenMembership[]> {
    const mapped = membershipsFrom(claim, this.#options.groups);
    const { open, isDeactivated } = await this.#options.signIns.memberships(name, mapped);
    if (open.length > 0) return open.slice(0, MAX_OFFERED);
    if (isDeactivated) throw new OidcRefusal("deactivated");
    throw new OidcRefusal(mapped.length === 0 ? "no-group" : "no-workspace");
  }

  async #choose(request: IncomingMessage, response: ServerResponse): Promise<void> {
    assertSameOrigin(request, this.#options.publicUrl);
    const form = new URLSearchParams(await textOf(request, "application/x-www-form-urlencoded"));
    const choice = this.#opened<Choice>(request, CHOICE_COOKIE);
    if (choice === undefined) throw new OidcRefusal("expired");
    const chosen = choice.memberships.find(({ workspaceId }) => workspaceId === form.get("workspace"));
    if (chosen === undefined) throw new OidcRefusal("wrong-choice");
    const { person, returnTo } = choice;
    const { name: holder, labels } = person;
    const { workspaceId, role, groupRole } = chosen;
    const draft = { workspaceId, role, holder, person: { labels, groupRole } };
    const signIn = await this.#options.signIns.beginOnce(choice, draft);
    if (signIn === undefined) throw new OidcRefusal("expired");
    this.#welcome(response, signIn, { holder, workspaceId, returnTo });
  }

  #welcome(response: ServerResponse, { secret, expiresAtMs }: NewSignIn, person: SignedInPerson): void {
    const { cookie, clock, log } = this.#options;
    const { holder: by, workspaceId: workspace_id, returnTo } = person;
    log.info({ by, workspace_id }, "a person signed in");
    sendSignedIn(response, returnTo, [
      cookie.text(secret, Math.floor((expiresAtMs - clock.now()) / 1000)),
      this.#clear(FLOW_COOKIE, "Lax"),
      this.#clear(CHOICE_COOKIE, "Strict"),
    ]);
  }

  /** Answers a failed sign-in with a page. Other faults become the error response. */
  #refuse(error: unknown, response: ServerResponse): void {
    const refusal = refusalFrom(error);
    this.#options.log.info({ fault: refusal.fault, code: refusal.code }, "a sign-in by OpenID Connect was refused");
    sendFault(response, refusal, []);
  }

  #cookie(name: string, value: Flow | Choice, lifetimeMs: number, sameSite: "Lax" | "Strict"): string {
    const text = this.#options.cipher.encrypt("", name, JSON.stringify(value)).toString("base64url");
    return this.#attributes(`${this.#named(name)}=${text}`, lifetimeMs / 1000, sameSite);
  }

  #clear(name: string, sameSite: "Lax" | "Strict"): string {
    return this.#attributes(`${this.#named(name)}=`, 0, sameSite);
  }

  /** Returns the name of a cookie in the browser. Over TLS no page without TLS can set one that begins with `__Secure-`. */
  #named(name: string): string {
    return this.#isSecure ? `__Secure-${name}` : name;
  }

  #attributes(pair: string, maxAgeSeconds: number, sameSite: "Lax" | "Strict"): string {
    const secure = this.#isSecure ? "; Secure" : "";
    return `${pair}; Path=${PREFIX}; HttpOnly; SameSite=${sameSite}; Max-Age=${maxAgeSeconds}${secure}`;
  }

  /** Reads an encrypted cookie; undefined if it is missing, invalid or expired. */
  #opened<T extends Flow | Choice>(request: IncomingMessage, name: string): T | undefined {
    const text = cookieValue(headerOf(request, "cookie") ?? "", this.#named(name));
    if (text === undefined || !COOKIE_VALUE.test(text)) return undefined;
    try {
      const value = JSON.parse(this.#options.cipher.decrypt("", name, Buffer.from(text, "base64url"))) as T;
      return value.untilMs > this.#options.clock.now() ? value : undefined;
    } catch {
      return undefined;
    }
  }
}

const METHODS: ReadonlyMap<string, string> = new Map([
  ["start", "GET"],
  ["callback", "GET"],
  ["choose", "POST"],
]);

/** Returns the refusal that an error is, or stands for. Throws every other error. */
function refusalFrom(error: unknown): OidcRefusal {
  if (error instanceof OidcRefusal) return error;
  const isDeactivated = error instanceof ControlPlaneError && error.reason === ErrorReason.PERSON_DEACTIVATED;
  if (isDeactivated) return new OidcRefusal("deactivated");
  throw error;
}

const roleWord = (role: Role): string => (Role[role] ?? "").toLowerCase();

const COOKIE_VALUE = /^[\w-]{1,8192}$/;

function splitOnce(text: string, mark: string): [string, string?] {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + mark.length)];
}

const ORIGIN = "http://localhost";

/** Reads the screen to return to. Any other address would make the sign-in an open redirect. */
function screenFrom(text: string): string {
  const isPath = text.length <= MAX_RETURN_TO && /^\/(?![/\\])[\x21-\x7e]*$/.test(text) && URL.canParse(text, ORIGIN);
  const url = isPath ? new URL(text, ORIGIN) : undefined;
  if (url === undefined || url.origin !== ORIGIN || !isScreenPath(url.pathname)) throw new OidcRefusal("wrong-return");
  return url.pathname + url.search;
}
