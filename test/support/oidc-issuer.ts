/* OpenID Connect issuers in the process of a test: a real one, and one that answers as wrongly as a test wants. */
import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import Provider from "oidc-provider";

export const CLIENT_ID = "agent-control-plane";
export const CLIENT_SECRET = "a-client-secret-of-the-tests";

/** What an issuer says of the person who signs in next. */
export interface Person {
  readonly sub: string;
  readonly [claim: string]: unknown;
}

/** An issuer at an address of this host. */
export interface TestIssuer {
  readonly url: string;
  /** Who signs in next. */
  person: Person;
  close(): Promise<void>;
}

/** An issuer that is asked again for the people who signed in. */
export interface AskedIssuer extends TestIssuer {
  /** Changes the claims of a person who signed in. */
  change(person: Person): void;
  /** Closes the account of a person. */
  forget(sub: string): void;
  /** True while it answers every request with 503. */
  isSilent: boolean;
}

async function listen(server: Server, port = 0): Promise<string> {
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function close(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

/** Where the real issuer is and whom it serves. */
interface IssuerPlace {
  readonly redirectUri: string;
  /** Default: any free port. */
  readonly port?: number;
  /** True if it gives refresh tokens. Default true. */
  readonly refreshes?: boolean;
  /** Name of this host in its address. `localhost` makes it another site than `127.0.0.1`. */
  readonly host?: string;
}

/** Starts `oidc-provider` with this service as its client; it lets everyone in without a form. */
export async function startIssuer(place: IssuerPlace): Promise<AskedIssuer> {
  const { redirectUri, port = 0, host = "127.0.0.1", refreshes = true } = place;
  let serve = (_request: IncomingMessage, response: ServerResponse): void => void response.writeHead(503).end();
  const server = createServer((request, response) => serve(request, response));
  const url = (await listen(server, port)).replace("127.0.0.1", host);
  const people = new Map<string, Person>();
  const issuer = {
    url,
    person: { sub: "nobody" } as Person,
    change: (person: Person): void => void people.set(person.sub, person),
    forget: (sub: string): void => void people.delete(sub),
    isSilent: false,
    close: () => close(server),
  };
  const provider = new Provider(url, {
    clients: [
      {
        client_id: CLIENT_ID,
        client_secret: CLIENT_SECRET,
        redirect_uris: [redirectUri],
        grant_types: refreshes ? ["authorization_code", "refresh_token"] : ["authorization_code"],
        response_types: ["code"],
      },
    ],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "preferred_username", "groups"] },
    findAccount: (_context, sub) =>
      people.has(sub) ? { accountId: sub, claims: () => ({ ...people.get(sub), sub }) } : undefined,
    issueRefreshToken: async () => refreshes,
    expiresWithSession: async () => false,
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    features: { devInteractions: { enabled: false } },
    pkce: { required: () => true },
    ttl: {
      AccessToken: 60,
      AuthorizationCode: 60,
      Grant: 3_600,
      IdToken: 60,
      Interaction: 60,
      RefreshToken: 3_600,
      Session: 60,
    },
    // Every sign-in asks again, so that a browser may come as another person.
    cookies: { keys: [randomUUID()] },
    async loadExistingGrant({ oidc }) {
      const grant = new provider.Grant({ clientId: CLIENT_ID, accountId: oidc.session?.accountId ?? "" });
      grant.addOIDCScope("openid profile email");
      await grant.save();
      return grant;
    },
  });
  const answer = provider.callback();
  serve = (request, response) => {
    if (issuer.isSilent) return void response.writeHead(503).end();
    if (request.url?.startsWith("/interaction/") !== true) return void answer(request, response);
    people.set(issuer.person.sub, issuer.person);
    const login = { accountId: issuer.person.sub, remember: false };
    provider.interactionFinished(request, response, { login }).catch(() => response.writeHead(500).end());
  };
  return issuer;
}

/** How an answer of the rogue issuer is wrong. */
export interface Faults {
  /** Claims of the ID token in place of the right ones. */
  readonly claims?: Readonly<Record<string, unknown>>;
  /** Signs with a key that is not published. */
  readonly wrongKey?: boolean;
  /** Answers the token request with this instead. */
  readonly token?: { readonly status: number; readonly body: string };
  /** Answers discovery with this in place of the right member. */
  readonly discovery?: Readonly<Record<string, unknown>>;
}

/** An issuer whose answers a test makes wrong. */
export interface RogueIssuer extends TestIssuer {
  faults: Faults;
  /** Paths that were asked for. */
  readonly asked: string[];
}

/** Starts an issuer without pages: `/authorize` answers at once, with the nonce of the request as the code. */
export async function startRogueIssuer(): Promise<RogueIssuer> {
  const { publicKey, privateKey } = await generateKeyPair("RS256", { extractable: true });
  const other = await generateKeyPair("RS256");
  const jwk = { ...(await exportJWK(publicKey)), kid: "k1", alg: "RS256", use: "sig" };
  const server = createServer((request, response) => {
    respond(request, response).catch((error: Error) => response.writeHead(500).end(error.message));
  });
  const url = await listen(server);
  const issuer: RogueIssuer = { url, person: { sub: "nobody" }, faults: {}, asked: [], close: () => close(server) };
  const codes = new Map<string, { readonly nonce: string; readonly challenge: string }>();

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", url);
    issuer.asked.push(pathname);
    const json = (status: number, body: string): void =>
      void response.writeHead(status, { "content-type": "application/json" }).end(body);
    if (pathname === "/.well-known/openid-configuration") return json(200, JSON.stringify(discovery()));
    if (pathname === "/jwks") return json(200, JSON.stringify({ keys: [jwk] }));
    if (pathname === "/authorize") {
      const code = randomUUID();
      codes.set(code, { nonce: searchParams.get("nonce") ?? "", challenge: searchParams.get("code_challenge") ?? "" });
      const back = new URL(searchParams.get("redirect_uri") ?? "");
      back.search = new URLSearchParams({ code, state: searchParams.get("state") ?? "", iss: url }).toString();
      response.writeHead(303, { location: back.href }).end();
      return;
    }
    if (pathname !== "/token") return json(404, "{}");
    if (issuer.faults.token !== undefined) return json(issuer.faults.token.status, issuer.faults.token.body);
    const form = new URLSearchParams(await textOf(request));
    const code = codes.get(form.get("code") ?? "");
    codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    if (code?.challenge !== challenge) return json(400, JSON.stringify({ error: "invalid_grant" }));
    const claims = { ...issuer.person, nonce: code.nonce, iss: url, aud: CLIENT_ID, ...issuer.faults.claims };
    const token = new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: "k1" }).setIssuedAt();
    if (!("exp" in claims)) token.setExpirationTime("5m");
    const id_token = await token.sign(issuer.faults.wrongKey === true ? other.privateKey : privateKey);
    json(200, JSON.stringify({ access_token: "an-access-token", token_type: "Bearer", id_token }));
  }

  const discovery = () => ({
    issuer: url,
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    jwks_uri: `${url}/jwks`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["RS256"],
    authorization_response_iss_parameter_supported: true,
    ...issuer.faults.discovery,
  });
  return issuer;
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
