import { request as httpRequest } from "node:http";
import { expect } from "chai";
import { startService, type TestService } from "../support/service.ts";

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly json: { readonly [member: string]: unknown };
}

describe("signing in over HTTP", () => {
  let service: TestService;
  before(async () => {
    service = await startService();
  });
  after(() => service.stop());

  async function send(
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(service.http + path, {
      method,
      headers: { "content-type": "application/json", ...headers },
      ...init,
    });
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "");
    return { status: response.status, headers: response.headers, json: isJson ? JSON.parse(text) : { text } };
  }

  async function signedIn(key = service.adminKey): Promise<{ cookie: string; csrf: string }> {
    const { headers, json } = await send("POST", "/dashboard/sign-in", { key });
    return { cookie: (headers.get("set-cookie") ?? "").split(";")[0] ?? "", csrf: String(json.csrf_token) };
  }

  const reasonIn = ({ json }: Reply): unknown =>
    (json.error as { details?: { reason?: string }[] } | undefined)?.details?.[0]?.reason;

  it("sets a cookie that stands in for the key, with the token of every call.", async () => {
    const { headers, json } = await send("POST", "/dashboard/sign-in", { key: service.adminKey });
    expect(headers.get("set-cookie")).to.match(
      /^acp_sign_in=acps_[a-z2-7]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43\d{3}$/,
    );
    expect(json).to.include({ workspace_id: "default", role: "admin" });
    const { cookie, csrf } = await signedIn();
    const agents = (more: Record<string, string>) => send("GET", "/v1/enforce/agents", undefined, { cookie, ...more });
    expect((await agents({ "x-csrf-token": csrf })).status).to.equal(200);
    for (const token of [{}, { "x-csrf-token": "" }, { "x-csrf-token": `${csrf}x` }]) {
      const refused = await agents(token as Record<string, string>);
      expect([refused.status, reasonIn(refused)]).to.deep.equal([403, "CSRF_TOKEN_INVALID"]);
    }
    // A key beside the cookie decides, and needs no token.
    expect((await agents({ "x-api-key": service.adminKey })).status).to.equal(200);
  });

  it("names the key in the log, not the sign-in.", async () => {
    const created = await service.rest("POST /v1/admin/keys", { name: "o", role: "operator" });
    const { cookie, csrf } = await signedIn(created.secret ?? "");
    const { json } = await send("POST", "/v1/enforce/departments", { name: "d" }, { cookie, "x-csrf-token": csrf });
    expect(json.department).to.be.an("object");
    const { entries } = await service.rest("GET /v1/enforce/vault/entries?page_size=500");
    const bodies = (entries as unknown as { body: string }[]).map(({ body }) => body).join("\n");
    expect(bodies).to.contain((created.key as unknown as { key_id: string }).key_id);
    expect(bodies).not.to.contain(cookie.split("=")[1]);
  });

  it("refuses pages of other sites, other types, other methods and large bodies.", async () => {
    const elsewhere = await new Promise<number>((resolve) => {
      const headers = { "content-type": "application/json", origin: "https://evil.example" };
      const sent = httpRequest(`${service.http}/dashboard/sign-in`, { method: "POST", headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      sent.end(JSON.stringify({ key: service.adminKey }));
    });
    expect(elsewhere).to.equal(403);
    const plain = await send("POST", "/dashboard/sign-in", { key: service.adminKey }, { "content-type": "text/plain" });
    expect(plain.status).to.equal(400);
    expect((await send("GET", "/dashboard/sign-in")).status).to.equal(405);
    expect((await send("POST", "/dashboard/sign-in", { key: "k".repeat(10_000) })).status).to.equal(400);
    expect((await send("POST", "/dashboard/nothing", {})).status).to.equal(404);
  });

  it("ends by signing out, which needs the token too.", async () => {
    const { cookie, csrf } = await signedIn();
    expect((await send("POST", "/dashboard/sign-out", {}, { cookie })).status).to.equal(403);
    const session = async () => (await send("GET", "/dashboard/session", undefined, { cookie })).json.session;
    expect(await session()).to.include({ csrf_token: csrf });
    const out = await send("POST", "/dashboard/sign-out", {}, { cookie, "x-csrf-token": csrf });
    expect(out.headers.get("set-cookie")).to.match(/^acp_sign_in=; .*Max-Age=0$/);
    expect(await session()).to.equal(null);
    const after = await send("GET", "/v1/enforce/agents", undefined, { cookie, "x-csrf-token": csrf });
    expect(reasonIn(after)).to.equal("KEY_INVALID");
  });

  it("refuses wrong keys, keys of agents and credentials, and slows down who guesses.", async () => {
    const agentKey = await service.rest("POST /v1/admin/keys", { name: "a", role: "agent" });
    const agentId = await service.agent();
    const credential = await service.rest("POST /v1/enforce/credentials", { agent_id: agentId });
    for (const [key, reason] of [
      ["nonsense", "KEY_INVALID"],
      [agentKey.secret, "ROLE_NOT_ALLOWED"],
      [credential.secret, "KEY_INVALID"],
      ["", "INVALID_FIELD"],
      [5, "INVALID_FIELD"],
    ] as const) {
      expect(reasonIn(await send("POST", "/dashboard/sign-in", { key })), String(key)).to.equal(reason);
    }
    const reasons = new Set<unknown>();
    for (let count = 0; count < 70; count++) {
      reasons.add(reasonIn(await send("POST", "/dashboard/sign-in", { key: `guess ${count}` })));
    }
    expect([...reasons]).to.deep.equal(["KEY_INVALID", "TOO_MANY_WRONG_KEYS"]);
    expect((await send("POST", "/dashboard/sign-in", { key: service.adminKey })).status).to.equal(200);
  });

  it("serves the page under a strict policy at every screen, and nothing beside it.", async () => {
    const page = (path: string, accept = "text/html") => fetch(service.http + path, { headers: { accept } });
    for (const path of ["/", "/escalations", "/agents/agt_1", "/mandates/mnd_1/history"]) {
      const response = await page(path);
      expect([response.status === 200 || response.status === 503, response.headers.get("content-type")]).to.deep.equal([
        true,
        "text/html; charset=utf-8",
      ]);
      const policy = response.headers.get("content-security-policy") ?? "";
      expect(policy)
        .to.contain("default-src 'none'")
        .and.contain("script-src 'self'")
        .and.contain("frame-ancestors 'none'");
      expect(policy).not.to.contain("unsafe");
    }
    for (const path of [
      "/assets/../../package.json",
      "/assets/%2e%2e/digest",
      "/digest",
      "/nothing",
      "/assets/no.js",
    ]) {
      expect((await page(path)).status, path).to.equal(404);
    }
  });

  it("answers a name that every object inherits as any other unknown one, without a stack.", async () => {
    const places = ["/", "/dashboard/", "/dashboard/oidc/", "/docs/", "/docs/guides/", "/docs/reference/", "/assets/"];
    const others = [
      "/.well-known/",
      "/healthz/",
      "/schemas/",
      "/v1/",
      "/v1/enforce/",
      "/v1/hooks/",
      "/mcp/",
      "/api/redact/",
    ];
    for (const place of [...places, ...others]) {
      for (const name of ["constructor", "__proto__", "toString", "hasOwnProperty", "constructor.js"]) {
        // Of the same form, so that it is refused for the same reason.
        const unknown = place + name.replace(/[a-z]/g, "x");
        const known = (await send("GET", unknown, undefined, { "x-api-key": service.adminKey })).status;
        for (const method of ["GET", "POST"]) {
          const body = method === "POST" ? {} : undefined;
          const { status, json } = await send(method, place + name, body, { "x-api-key": service.adminKey });
          if (method === "GET") expect(status, place + name).to.equal(known);
          expect(status, place + name).to.be.within(200, 499);
          expect(JSON.stringify(json), place + name).not.to.match(/\bat .*:\d+:\d+|native code|\.ts\b/);
        }
      }
    }
    expect(service.output()).not.to.contain("http request failed");
  });
});

describe("signing in where browsers reach the service over TLS", () => {
  let service: TestService;
  before(async () => {
    const oidc = {
      ACP_OIDC_ISSUER: "http://127.0.0.1:9",
      ACP_OIDC_CLIENT_ID: "client",
      ACP_OIDC_CLIENT_SECRET: "secret",
      ACP_OIDC_GROUP_MAP: "admins=default:admin",
    };
    service = await startService({ env: { ACP_PUBLIC_URL: "https://acp.example.com", ...oidc } });
  });
  after(() => service.stop());

  it("sets a cookie that no other host can set, and takes none of the plain name.", async () => {
    const signIn = await fetch(`${service.http}/dashboard/sign-in`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ key: service.adminKey }),
    });
    const { csrf_token: csrf } = (await signIn.json()) as { csrf_token: string };
    const [line = ""] = signIn.headers.getSetCookie();
    expect(line).to.match(
      /^__Host-acp_sign_in=acps_[a-z2-7]+; Path=\/; HttpOnly; SameSite=Strict; Secure; Max-Age=43\d{3}$/,
    );
    const [cookie = ""] = line.split(";");
    const agents = async (given: string): Promise<number> => {
      const headers = { cookie: given, "x-csrf-token": csrf };
      return (await fetch(`${service.http}/v1/enforce/agents`, { headers })).status;
    };
    const session = async (given: string): Promise<unknown> => {
      const answer = await fetch(`${service.http}/dashboard/session`, { headers: { cookie: given } });
      return ((await answer.json()) as { session: unknown }).session;
    };
    const plain = cookie.replace("__Host-", "");
    expect([await agents(cookie), await agents(`${plain}; ${cookie}`), await agents(plain)]).to.deep.equal([
      200, 200, 401,
    ]);
    expect(await session(cookie)).to.include({ csrf_token: csrf });
    for (const given of [plain, cookie.replace("__Host-", "__Secure-"), cookie.replace("__Host-", "__host-")])
      expect(await session(given), given).to.equal(null);
    const out = await fetch(`${service.http}/dashboard/sign-out`, {
      method: "POST",
      headers: { cookie, "x-csrf-token": csrf, "content-type": "application/json" },
      body: "{}",
    });
    expect(out.headers.getSetCookie()).to.deep.equal([
      "__Host-acp_sign_in=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0",
    ]);
  });
});
