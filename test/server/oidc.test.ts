import { join } from "node:path";
import { expect } from "chai";
import { agentctl } from "../cli/harness.ts";
import { freePort } from "../support/free-port.ts";
import { TestBrowser, type Visit } from "../support/oidc-browser.ts";
import {
  type AskedIssuer,
  CLIENT_ID,
  CLIENT_SECRET,
  type RogueIssuer,
  startIssuer,
  startRogueIssuer,
  type TestIssuer,
} from "../support/oidc-issuer.ts";
import { withOwner } from "../support/owner.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { startService, type TestService } from "../support/service.ts";

const MAP = "acp-admins=default:admin,readers=default:auditor,finance=pay:operator,ghosts=nowhere:admin";

async function settings(issuer: string): Promise<{ port: number; env: Record<string, string> }> {
  const port = await freePort();
  const env = {
    ACP_HTTP_PORT: String(port),
    ACP_PUBLIC_URL: `http://127.0.0.1:${port}`,
    ACP_OIDC_ISSUER: issuer,
    ACP_OIDC_CLIENT_ID: CLIENT_ID,
    ACP_OIDC_CLIENT_SECRET: CLIENT_SECRET,
    ACP_OIDC_GROUP_MAP: MAP,
    ACP_OIDC_LABEL: "Example",
  };
  return { port, env };
}

interface Session {
  readonly key_id: string;
  readonly name: string | null;
  readonly workspace_id: string;
  readonly role: string;
  readonly csrf_token: string;
  readonly expires_at: string;
}

async function sessionOf(browser: TestBrowser, service: TestService): Promise<Session | null> {
  const { text } = await browser.request(`${service.http}/dashboard/session`);
  return (JSON.parse(text) as { session: Session | null }).session;
}

describe("signing in by OpenID Connect", () => {
  let issuer: AskedIssuer;
  let service: TestService;
  /** One more service on the same database. */
  let other: ServedHere;
  const start = (query = ""): string => `${service.http}/dashboard/oidc/start${query}`;
  const isCallback = (url: string): boolean => url.includes("/dashboard/oidc/callback");

  before(async () => {
    const issuerPort = await freePort();
    const { env: issuing } = await settings(`http://127.0.0.1:${issuerPort}`);
    const env = { ...issuing, ACP_ENCRYPTION_KEY: "a-secret-of-two-processes-of-the-tests" };
    // The service starts while the issuer is down.
    service = await startService({ env });
    const shared = { ACP_HTTP_PORT: "0", ACP_ADMIN_KEY: service.adminKey };
    const signingKey = { ACP_SIGNING_KEY: join(service.dataDir, "signing-key.pem") };
    other = await serveHere({ databaseUrl: service.database.url, env: { ...env, ...shared, ...signingKey } });
    const down = await new TestBrowser().request(start());
    expect([down.status, down.fault]).to.deep.equal([503, "unreachable"]);
    const byKey = await fetch(`${service.http}/dashboard/sign-in`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ key: service.adminKey }),
    });
    expect(byKey.status).to.equal(200);
    await service.rest("POST /v1/admin/workspaces", { workspace_id: "pay", name: "Payments" });
    issuer = await startIssuer({ redirectUri: `${service.http}/dashboard/oidc/callback`, port: issuerPort });
    // A failed discovery is not repeated at once.
    await expectEventually(async () => (await new TestBrowser().request(start())).status === 303);
  });
  after(async () => {
    await other?.stop();
    await service?.stop();
    await issuer?.close();
  });

  const nameOf = (subject: string): string => `oidc:${issuer.url}|${subject}`;

  async function signIn(person: TestIssuer["person"], query = ""): Promise<{ browser: TestBrowser; last: Visit }> {
    issuer.person = person;
    const browser = new TestBrowser();
    return { browser, last: await browser.follow(start(query)) };
  }

  it("says what is offered.", async () => {
    const { text } = await new TestBrowser().request(`${service.http}/dashboard/session`);
    expect(JSON.parse(text)).to.deep.equal({ session: null, oidc: { label: "Example", url: start() } });
  });

  it("signs a person in with the first role of a group, and returns to the screen.", async () => {
    const person = { sub: "1", email: "Alice@Example.com", email_verified: true, groups: ["readers", "acp-admins"] };
    const { browser, last } = await signIn(person, "?return_to=/escalations%3Fstatus%3Dpending%26a%3D%22%3E");
    expect(last.status).to.equal(200);
    expect(last.text).to.contain(
      '<meta http-equiv="refresh" content="0; url=/escalations?status=pending&amp;a=%22%3E">',
    );
    expect(last.text).not.to.contain("<script");
    expect(last.headers.get("content-security-policy")).to.match(/^default-src 'none'; style-src 'nonce-/);
    expect(last.headers.get("cache-control")).to.equal("no-store");
    const [strict = "", ...cleared] = last.headers.getSetCookie();
    expect(strict).to.match(/^acp_sign_in=acps_[a-z2-7]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=(4319\d|43200)$/);
    expect(cleared).to.have.length(2);
    for (const line of cleared) expect(line).to.match(/^acp_oidc(_choice)?=; .*Max-Age=0$/);
    const session = await sessionOf(browser, service);
    const named = { key_id: nameOf("1"), name: "Alice@Example.com" };
    expect(session).to.include({ ...named, workspace_id: "default", role: "admin" });
    const lifetimeMs = Date.parse(session?.expires_at ?? "") - Date.now();
    expect(lifetimeMs).to.be.within(43_000_000, 43_200_000 + 5_000);
  });

  it("begins with PKCE, state and nonce, and a cookie for this browser alone.", async () => {
    const { status, headers } = await new TestBrowser().request(start());
    const to = new URL(headers.get("location") ?? "");
    expect(status).to.equal(303);
    expect(Object.fromEntries(to.searchParams)).to.include({
      client_id: CLIENT_ID,
      response_type: "code",
      code_challenge_method: "S256",
      scope: "openid profile email",
      redirect_uri: `${service.http}/dashboard/oidc/callback`,
    });
    for (const name of ["state", "nonce", "code_challenge"]) expect(to.searchParams.get(name)).to.have.length(43);
    const [cookie = ""] = headers.getSetCookie();
    expect(cookie).to.match(/^acp_oidc=[\w-]+; Path=\/dashboard\/oidc; HttpOnly; SameSite=Lax; Max-Age=600$/);
    expect(Buffer.from(cookie.slice(9), "base64url").toString()).not.to.contain(to.searchParams.get("state") ?? "");
  });

  it("names its cookies so that no page without TLS can set them, where browsers reach the service over TLS.", async () => {
    const { env } = await settings(issuer.url);
    const secure = await startService({ env: { ...env, ACP_PUBLIC_URL: "https://acp.example.com" } });
    try {
      const { status, headers } = await new TestBrowser().request(`${secure.http}/dashboard/oidc/start`);
      expect(status).to.equal(303);
      const [cookie = ""] = headers.getSetCookie();
      expect(cookie).to.match(
        /^__Secure-acp_oidc=[\w-]+; Path=\/dashboard\/oidc; HttpOnly; SameSite=Lax; Max-Age=600; Secure$/,
      );
      const [flow = ""] = cookie.split(";");
      const state = new URL(headers.get("location") ?? "").searchParams.get("state");
      const back = (given: string): Promise<Visit> =>
        new TestBrowser().request(
          `${secure.http}/dashboard/oidc/callback?state=${state}&error=access_denied&iss=${issuer.url}`,
          {
            headers: { cookie: given },
          },
        );
      expect((await back(flow.replace("__Secure-", ""))).fault).to.equal("expired");
      const known = await back(flow);
      expect(known.fault).to.equal("denied");
      expect(known.headers.getSetCookie().join()).to.match(/^__Secure-acp_oidc=; .*Max-Age=0; Secure$/);
    } finally {
      await secure.stop();
    }
  });

  it("names people by issuer and subject, with a verified email or a name beside.", async () => {
    const groups = ["readers"];
    const verified = { email_verified: true, groups };
    for (const [claims, want] of [
      [{ sub: "2", email: "a@b.c", ...verified }, "a@b.c"],
      [{ sub: "a@b.c", email: "a@b.c", ...verified, email_verified: "true" }, "a@b.c"],
      [{ sub: "3", email: "boss@b.c", ...verified, email_verified: false, preferred_username: "Eve" }, "Eve"],
      [{ sub: "3a", email: "boss@b.c", groups, name: "Eve Lee", preferred_username: "eve" }, "Eve Lee"],
      [{ sub: "3b", groups, name: "boss@b.c", preferred_username: "boss@b.c" }, null],
      [{ sub: "4", email: "b\u043ess@b.c", ...verified, preferred_username: "bo\u200bss" }, null],
      [{ sub: "5", email: `${"x".repeat(300)}@b.c`, ...verified }, null],
      [{ sub: "6", email: ["a@b.c"], ...verified, preferred_username: { a: 1 } }, null],
      [{ sub: "7|x", email: "jörg@müller.de", ...verified }, "jörg@müller.de"],
      [{ sub: "x".repeat(255), groups }, null],
    ] as const) {
      const { browser } = await signIn(claims);
      const session = await sessionOf(browser, service);
      expect([session?.key_id, session?.name], JSON.stringify(claims)).to.deep.equal([nameOf(claims.sub), want]);
    }
    // The last sign-in says how a person is called.
    const { browser } = await signIn({ sub: "2", groups, name: "Ann" });
    await expectEventually(async () => (await sessionOf(browser, service))?.name === "Ann");
  });

  it("ends the sign-ins of people under the names of before.", async () => {
    const { browser } = await signIn({ sub: "8", email: "old@b.c", groups: ["readers"] });
    expect(await sessionOf(browser, service)).not.to.equal(null);
    await withOwner(service.database.url, (owner) =>
      owner.query("update sign_in set holder = 'oidc:old@b.c' where holder = $1", [nameOf("8")]),
    );
    await expectEventually(async () => (await sessionOf(browser, service)) === null);
  });

  it("says so when no group has a role, or its workspace does not exist.", async () => {
    for (const [groups, fault] of [
      [undefined, "no-group"],
      [[], "no-group"],
      [["others", 5, null, { a: "acp-admins" }], "no-group"],
      ["ACP-ADMINS", "no-group"],
      [["ghosts"], "no-workspace"],
    ] as const) {
      const { browser, last } = await signIn({ sub: "8", email: "a@b.c", groups });
      expect([last.status, last.fault]).to.deep.equal([403, fault]);
      expect(await sessionOf(browser, service)).to.equal(null);
    }
  });

  it("offers a choice to people with several workspaces.", async () => {
    const { browser, last } = await signIn({ sub: "9", email: "c@b.c", groups: ["finance", "readers", "ghosts"] });
    expect(
      [...last.text.matchAll(/value="([^"]*)">\S+ <span class="role">as (\w+)/g)].map(([, ...found]) => found),
    ).to.deep.equal([
      ["default", "auditor"],
      ["pay", "operator"],
    ]);
    expect(await sessionOf(browser, service)).to.equal(null);
    const choose = (workspace: string, headers: Record<string, string> = {}): Promise<Visit> =>
      browser.request(`${service.http}/dashboard/oidc/choose`, {
        method: "POST",
        body: new URLSearchParams({ workspace }),
        headers,
      });
    expect((await choose("nowhere")).fault).to.equal("wrong-choice");
    expect((await choose("pay", { origin: "https://evil.example" })).status).to.equal(403);
    expect(await sessionOf(browser, service)).to.equal(null);
    const done = await choose("pay", { origin: service.http });
    expect(done.text).to.contain("url=/overview");
    expect(await sessionOf(browser, service)).to.include({
      key_id: nameOf("9"),
      workspace_id: "pay",
      role: "operator",
    });
    expect((await choose("default")).fault).to.equal("expired");
  });

  it("takes a choice once, whichever process it comes to and however many come at once.", async () => {
    const { browser } = await signIn({ sub: "9", email: "c@b.c", groups: ["finance", "readers"] });
    const cookie = `acp_oidc_choice=${browser.cookieOf(service.http, "acp_oidc_choice")}`;
    const choose = (to: string, workspace: string): Promise<Visit> =>
      new TestBrowser().request(`${to}/dashboard/oidc/choose`, {
        method: "POST",
        body: new URLSearchParams({ workspace }),
        headers: { cookie },
      });
    expect((await choose(service.http, "nowhere")).fault).to.equal("wrong-choice");
    const visits = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        choose(index % 2 === 0 ? service.http : other.http, index % 3 === 0 ? "pay" : "default"),
      ),
    );
    expect(visits.filter(({ text }) => text.includes("You are signed in"))).to.have.length(1);
    expect(visits.filter(({ fault }) => fault === "expired")).to.have.length(11);
    expect((await choose(other.http, "pay")).fault).to.equal("expired");
  });

  it("refuses addresses of other sites to return to.", async () => {
    for (const to of [
      "https://evil.example",
      "//evil.example",
      "/\\evil.example",
      "/overview/..//evil.example",
      "javascript:alert(1)",
      "/overview\n",
      "overview",
      "",
      "/dashboard/session",
      "/assets/x.js",
      "/\t/evil.example",
      "/%2f%2fevil.example",
      "/overview/%2e%2e//evil.example",
      `/overview?${"x".repeat(600)}`,
      "/@evil.example",
      "http:/evil.example",
    ]) {
      const { status, fault, headers } = await new TestBrowser().request(start(`?return_to=${encodeURIComponent(to)}`));
      expect([status, fault], JSON.stringify(to)).to.deep.equal([400, "wrong-return"]);
      expect([headers.get("location"), headers.get("set-cookie")]).to.deep.equal([null, null]);
    }
  });

  it("refuses another state, another browser, a used answer and an expired or forged cookie.", async () => {
    issuer.person = { sub: "1", email: "alice@example.com", groups: ["acp-admins"] };
    const browser = new TestBrowser();
    const { url } = await browser.follow(start(), isCallback);
    const other = await new TestBrowser().request(url);
    expect([other.status, other.fault]).to.deep.equal([400, "expired"]);
    const wrong = new URL(url);
    wrong.searchParams.set("state", "x");
    for (const bad of [wrong.href, `${url}&state=x`, url.replace(/state=[^&]*/, "")]) {
      const { fault, headers } = await browser.request(bad);
      expect([fault, headers.get("set-cookie")], bad).to.deep.equal(["wrong-state", null]);
    }
    const flow = browser.cookieOf(url, "acp_oidc") ?? "";
    const forged = new TestBrowser();
    for (const cookie of [`${flow.startsWith("A") ? "B" : "A"}${flow.slice(1)}`, "x", flow.toUpperCase(), ""]) {
      const { fault } = await forged.request(url, { headers: { cookie: `acp_oidc=${cookie}` } });
      expect(fault, cookie).to.equal("expired");
    }
    // As another kind of cookie it is worth nothing.
    const chosen = await forged.request(`${service.http}/dashboard/oidc/choose`, {
      method: "POST",
      body: new URLSearchParams({ workspace: "default" }),
      headers: { cookie: `acp_oidc_choice=${flow}` },
    });
    expect(chosen.fault).to.equal("expired");
    expect((await browser.request(url)).status).to.equal(200);
    expect((await browser.request(url)).fault).to.equal("expired");
    const replayed = await forged.request(url, { headers: { cookie: `acp_oidc=${flow}` } });
    expect([replayed.fault, replayed.text.includes("invalid_grant")]).to.deep.equal(["unproven", true]);
    expect(replayed.headers.getSetCookie().join()).not.to.contain("acps_");
  });

  it("shows an error of the issuer by its code alone.", async () => {
    const browser = new TestBrowser();
    const { url } = await browser.follow(start(), isCallback);
    const state = new URL(url).searchParams.get("state") ?? "";
    const refused = (error: string) =>
      new URLSearchParams({ error, state, iss: issuer.url, error_description: "<b>call 555</b>" }).toString();
    const flow = browser.cookieOf(url, "acp_oidc") ?? "";
    for (const [error, shown] of [
      ["access_denied", true],
      ["<script>", false],
    ] as const) {
      const visit = await new TestBrowser().request(`${service.http}/dashboard/oidc/callback?${refused(error)}`, {
        headers: { cookie: `acp_oidc=${flow}` },
      });
      expect([visit.fault, visit.text.includes("access_denied")]).to.deep.equal(["denied", shown]);
      expect(visit.text).not.to.match(/555|<script/);
    }
  });

  /** Reads the person of a subject as the service keeps them. */
  const kept = async (subject: string, workspace = "default"): Promise<Record<string, unknown> | undefined> => {
    const text = "select *, sealed_refresh::text as token from person where workspace_id = $1 and subject = $2";
    return withOwner(
      service.database.url,
      async (owner) => (await owner.query(text, [workspace, subject])).rows[0] as Record<string, unknown> | undefined,
    );
  };
  const setPerson = (subject: string, change: string): Promise<unknown> =>
    withOwner(service.database.url, (owner) =>
      owner.query(`update person set ${change} where subject = $1`, [subject]),
    );
  const makeDue = (subject: string): Promise<unknown> => setPerson(subject, "recheck_at_ms = 0");

  it("asks again for the groups of a person: another role holds at once, and none ends the sign-in.", async () => {
    const person = { sub: "20", email: "w@b.c", email_verified: true, groups: ["acp-admins", "staff"] };
    const { browser } = await signIn(person);
    const before = await kept("20");
    expect(before?.groups).to.deep.equal(["acp-admins", "staff"]);
    expect(Number(before?.recheck_at_ms) - Date.now()).to.be.within(500_000, 600_000);
    expect(before?.token).to.match(/^\\x[0-9a-f]{100,}$/);
    issuer.change({ ...person, groups: ["readers"] });
    await makeDue("20");
    await expectEventually(async () => (await sessionOf(browser, service))?.role === "auditor");
    const after = await kept("20");
    expect(after?.groups).to.deep.equal(["readers"]);
    expect(Number(after?.checked_at_ms)).to.be.above(Number(before?.checked_at_ms));
    expect(after?.token).not.to.equal(before?.token);
    issuer.change({ ...person, groups: [] });
    await makeDue("20");
    await expectEventually(async () => (await sessionOf(browser, service)) === null);
    expect((await kept("20"))?.groups).to.deep.equal([]);
  });

  it("ends the sign-in of a person whose account the issuer closed.", async () => {
    const { browser } = await signIn({ sub: "21", groups: ["readers", "staff"] });
    expect(await sessionOf(browser, service)).not.to.equal(null);
    issuer.forget("21");
    await makeDue("21");
    await expectEventually(async () => (await sessionOf(browser, service)) === null);
    expect(await kept("21")).to.deep.include({ groups: [], sealed_refresh: null, recheck_at_ms: null });
    expect(service.output()).not.to.match(/refresh_token|"sealed/);
  });

  it("ends a sign-in 15 minutes after its issuer was asked last, if nobody could ask again.", async () => {
    const { browser } = await signIn({ sub: "22", groups: ["readers"] });
    await setPerson("22", "checked_at_ms = checked_at_ms - 870000, recheck_at_ms = null");
    expect(await sessionOf(browser, service)).not.to.equal(null);
    await setPerson("22", "checked_at_ms = checked_at_ms - 40000");
    await expectEventually(async () => (await sessionOf(browser, service)) === null);
  });

  it("keeps no token of a person who is signed in nowhere.", async () => {
    const { browser } = await signIn({ sub: "23", groups: ["readers"] });
    const token = (await sessionOf(browser, service))?.csrf_token ?? "";
    const headers = { "content-type": "application/json", "x-csrf-token": token };
    await browser.request(`${service.http}/dashboard/sign-out`, { method: "POST", body: "{}", headers });
    await makeDue("23");
    await expectEventually(async () => (await kept("23"))?.sealed_refresh === null);
  });

  /** Makes a key that a person owns. Returns a function that gives the status of a call, on either process. */
  async function ownedKey(subject: string, role = "admin", method = "GET", path = "/v1/admin/keys") {
    const made = await service.rest("POST /v1/admin/keys", { name: "script", role, owner: nameOf(subject) });
    return async (): Promise<number[]> => {
      const headers = { "x-api-key": String(made.secret), "content-type": "application/json" };
      const answers = [service, other].map(({ http }) =>
        fetch(`${http}${path}`, { method, headers, ...(method === "GET" ? {} : { body: "{}" }) }),
      );
      return (await Promise.all(answers)).map(({ status }) => status);
    };
  }
  const signOut = (subject: string): Promise<unknown> =>
    withOwner(service.database.url, (owner) => owner.query("delete from sign_in where holder = $1", [nameOf(subject)]));
  const personOf = async (subject: string) => {
    const { people } = (await service.rest("GET /v1/admin/people?page_size=500")) as unknown as {
      people: { subject: string | null; left_at: string | null }[];
    };
    return people.find((each) => each.subject === subject);
  };

  it("refuses keys of a person whose account the issuer closed, though nobody is signed in, until they come back.", async () => {
    const person = { sub: "30", groups: ["acp-admins"] };
    await signIn(person);
    const status = await ownedKey("30");
    await signOut("30");
    await makeDue("30");
    // The token is kept for the key's sake, and the key goes on.
    await expectEventually(async () => Number((await kept("30"))?.recheck_at_ms) > Date.now() + 500_000);
    expect((await kept("30"))?.token).to.match(/^\\x/);
    expect(await status()).to.deep.equal([200, 200]);
    expect((await personOf("30"))?.left_at).to.equal(null);
    issuer.forget("30");
    await makeDue("30");
    await expectEventually(async () => (await status()).every((each) => each === 401));
    expect((await personOf("30"))?.left_at).to.be.a("string");
    await signIn(person);
    await expectEventually(async () => (await status()).every((each) => each === 200));
    expect((await personOf("30"))?.left_at).to.equal(null);
  });

  it("gives keys of a person at most the role of their groups, and none without a group.", async () => {
    const person = { sub: "31", groups: ["acp-admins"] };
    await signIn(person);
    const writes = await ownedKey("31", "admin", "POST", "/v1/enforce/agents");
    const reads = await ownedKey("31", "operator", "GET", "/v1/enforce/agents");
    await signOut("31");
    expect([await writes(), await reads()]).to.deep.equal([
      [400, 400],
      [200, 200],
    ]);
    issuer.change({ ...person, groups: ["readers"] });
    await makeDue("31");
    await expectEventually(async () => (await writes()).every((each) => each === 403));
    expect(await reads()).to.deep.equal([200, 200]);
    issuer.change({ ...person, groups: [] });
    await makeDue("31");
    await expectEventually(async () => (await reads()).every((each) => each === 401));
    issuer.change(person);
    await makeDue("31");
    await expectEventually(async () => (await reads()).every((each) => each === 200));
  });

  it("leaves keys alone that name nobody, or somebody who never signed in.", async () => {
    const never = await ownedKey("never");
    const label = await service.rest("POST /v1/admin/keys", { name: "script", role: "admin", owner: "Night shift" });
    expect(await never()).to.deep.equal([200, 200]);
    const headers = { "x-api-key": String(label.secret) };
    expect((await fetch(`${service.http}/v1/admin/keys`, { headers })).status).to.equal(200);
  });

  it("keeps keys while the issuer gives no answer, for a day.", async () => {
    const person = { sub: "32", groups: ["acp-admins"] };
    await signIn(person);
    const status = await ownedKey("32");
    await signOut("32");
    issuer.isSilent = true;
    try {
      await setPerson("32", "checked_at_ms = checked_at_ms - 86000000, recheck_at_ms = 0");
      await expectEventually(async () => Number((await kept("32"))?.recheck_at_ms) > 0);
      expect(await status()).to.deep.equal([200, 200]);
      await setPerson("32", "checked_at_ms = checked_at_ms - 500000, recheck_at_ms = 0");
      await expectEventually(async () => (await status()).every((each) => each === 401));
    } finally {
      issuer.isSilent = false;
    }
  });

  it("asks its own issuer about its own people alone.", async () => {
    await signIn({ sub: "33", groups: ["acp-admins"] });
    const status = await ownedKey("33");
    await signOut("33");
    await setPerson("33", "issuer = 'https://before.example', recheck_at_ms = 0");
    await signIn({ sub: "34", groups: ["acp-admins"] });
    await setPerson("34", "recheck_at_ms = 1");
    // The longest due is taken first, so the other one would have been.
    await expectEventually(async () => Number((await kept("34"))?.recheck_at_ms) > 1);
    expect(Number((await kept("33"))?.recheck_at_ms)).to.equal(0);
    await setPerson("33", `issuer = '${issuer.url}'`);
    expect(await status()).to.deep.equal([200, 200]);
  });

  it("keeps the groups and the token of a person who chose a workspace.", async () => {
    const { browser } = await signIn({ sub: "24", groups: ["finance", "readers"] });
    expect(await kept("24", "pay")).to.equal(undefined);
    await browser.request(`${service.http}/dashboard/oidc/choose`, {
      method: "POST",
      body: new URLSearchParams({ workspace: "pay" }),
      headers: { origin: service.http },
    });
    const person = await kept("24", "pay");
    expect(person?.groups).to.deep.equal(["finance", "readers"]);
    expect(person?.token).to.match(/^\\x/);
    expect(await sessionOf(browser, service)).to.include({ workspace_id: "pay", role: "operator" });
  });

  it("gives a person the role that an admin gave them, whatever their groups, and none once deactivated.", async () => {
    const draft = { name: "Wanda", role: "operator", issuer: issuer.url, subject: "25" };
    const { person } = (await service.rest("POST /v1/admin/people", draft)) as unknown as {
      person: { person_id: string };
    };
    const { browser } = await signIn({ sub: "25", email: "wanda@b.c", email_verified: true, groups: [] });
    expect(await sessionOf(browser, service)).to.include({ role: "operator", name: "Wanda", key_id: nameOf("25") });
    const { browser: reader } = await signIn({ sub: "25", groups: ["acp-admins"] });
    expect((await sessionOf(reader, service))?.role).to.equal("operator");
    await service.rest(`DELETE /v1/admin/people/${person.person_id}`);
    for (const each of [browser, reader]) expect(await sessionOf(each, service)).to.equal(null);
    const { last } = await signIn({ sub: "25", groups: ["acp-admins"] });
    expect([last.status, last.fault]).to.deep.equal([403, "deactivated"]);
  });

  it("answers other methods and paths as everywhere.", async () => {
    expect((await new TestBrowser().request(start(), { method: "POST" })).status).to.equal(405);
    expect((await new TestBrowser().request(`${service.http}/dashboard/oidc/choose`)).status).to.equal(405);
    expect((await new TestBrowser().request(`${service.http}/dashboard/oidc/else`)).status).to.equal(404);
    const long = await new TestBrowser().request(`${service.http}/dashboard/oidc/callback?code=${"x".repeat(9_000)}`);
    expect(long.fault).to.equal("unproven");
  });

  it("lets another person resolve what one asked under `four_eyes`, and not the same.", async () => {
    await service.rest("PATCH /v1/admin/workspaces/default", { four_eyes: true, default_decision: "escalate" });
    const call = async (person: TestIssuer["person"], path: string, body: object): Promise<Visit> => {
      const { browser } = await signIn(person);
      const token = (await sessionOf(browser, service))?.csrf_token ?? "";
      const headers = { "content-type": "application/json", "x-csrf-token": token };
      return browser.request(service.http + path, { method: "POST", body: JSON.stringify(body), headers });
    };
    const [asker, other] = ["asker", "other"].map((sub) => {
      return { sub, email: `${sub}@b.c`, email_verified: true, groups: ["acp-admins"] };
    });
    if (asker === undefined || other === undefined) throw new Error("there are two");
    const agent_id = await service.agent();
    const { text } = await call(asker, "/v1/enforce/intercept", { agent_id, action_type: "pay.out" });
    const { escalation_id: id } = JSON.parse(text) as { escalation_id: string };
    const resolve = (person: TestIssuer["person"]): Promise<Visit> =>
      call(person, `/v1/enforce/escalations/${id}/resolve`, { resolution: "approved" });
    const refusedTo = async (person: TestIssuer["person"]): Promise<void> => {
      const { status, text: answer } = await resolve(person);
      expect([status, answer.includes("FOUR_EYES")]).to.deep.equal([403, true], answer);
    };
    // The person stays the same, whatever the issuer calls them now.
    await refusedTo({ ...asker, email: "new@b.c", preferred_username: "new" });
    // A key that the asker makes is theirs, also by way of another key, and under a name that the asker gives it.
    const key = async (by: TestIssuer["person"], more: object): Promise<string> => {
      const made = await call(by, "/v1/admin/keys", { name: "key", role: "operator", ...more });
      return String(JSON.parse(made.text).secret);
    };
    const resolveWith = async (secret: string) => {
      const headers = { "x-api-key": secret, "content-type": "application/json" };
      const url = `${service.http}/v1/enforce/escalations/${id}/resolve`;
      const response = await fetch(url, { method: "POST", headers, body: '{"resolution":"approved"}' });
      return [response.status, (await response.text()).includes("FOUR_EYES")];
    };
    for (const owner of [{}, { owner: "other" }, { owner: nameOf("other") }])
      expect(await resolveWith(await key(asker, owner))).to.deep.equal([403, true]);
    const owned = await service.rest("POST /v1/admin/keys", { name: "key", role: "operator", owner: nameOf("asker") });
    expect(owned.key).to.include({ owner: nameOf("asker"), owner_name: "asker@b.c" });
    expect(await resolveWith(String(owned.secret))).to.deep.equal([403, true]);
    // Another person with the asker's email address, or with the asker's subject as user name, is another.
    const resolved = await resolve({ ...other, email: "asker@b.c", preferred_username: "asker" });
    const answered = { resolved_by: nameOf("other"), resolved_by_name: "asker@b.c" };
    expect(JSON.parse(resolved.text).escalation).to.include(answered);
    const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
    const verified = await agentctl(["vault", "verify"], env);
    expect(verified.code, verified.stderr).to.equal(0);
  });

  it("names the person in what is sealed, ends everywhere at once, and logs no secret.", async () => {
    const person = { sub: "1", email: "alice@example.com", email_verified: true, groups: ["acp-admins"] };
    const [{ browser, last }, { browser: second }] = [await signIn(person), await signIn(person)];
    const session = await sessionOf(browser, service);
    const headers = { "content-type": "application/json", "x-csrf-token": session?.csrf_token ?? "" };
    const url = `${service.http}/v1/enforce/departments`;
    expect((await browser.request(url, { method: "POST", body: '{"name":"d"}' })).status).to.equal(403);
    expect((await browser.request(url, { method: "POST", body: '{"name":"d"}', headers })).status).to.equal(200);
    const page = await service.rest("GET /v1/enforce/vault/entries?page_size=500");
    const entries = page.entries as unknown as { body: string; author_name: string | null }[];
    const authors = entries.map(
      ({ body, author_name }) => `${(JSON.parse(body) as { by?: string }).by} ${author_name}`,
    );
    expect(authors).to.include(`${nameOf("1")} alice@example.com`);
    const out = await browser.request(`${service.http}/dashboard/sign-out`, {
      method: "POST",
      body: '{"everywhere":true}',
      headers,
    });
    expect(out.status).to.equal(200);
    expect([await sessionOf(browser, service), await sessionOf(second, service)]).to.deep.equal([null, null]);
    const secret = /acps_[a-z2-7]+/.exec(last.headers.getSetCookie().join())?.[0] ?? "";
    expect(secret).not.to.equal("");
    for (const text of [CLIENT_SECRET, secret, "eyJ", "code="]) expect(service.output()).not.to.contain(text);
  });
});

describe("signing in at an issuer that is wrong", () => {
  let issuer: RogueIssuer;
  let service: TestService;
  const start = (): string => `${service.http}/dashboard/oidc/start`;

  before(async () => {
    issuer = await startRogueIssuer();
    const { env } = await settings(issuer.url);
    service = await startService({ env });
    issuer.person = { sub: "1", email: "alice@example.com", groups: ["acp-admins"] };
  });
  after(async () => {
    await service?.stop();
    await issuer?.close();
  });

  it("does so when nothing is, for 15 minutes from an issuer that cannot be asked again.", async () => {
    const browser = new TestBrowser();
    expect((await browser.follow(start())).status).to.equal(200);
    const lifetimeMs = Date.parse((await sessionOf(browser, service))?.expires_at ?? "") - Date.now();
    expect(lifetimeMs).to.be.within(890_000, 900_000);
  });

  const now = (): number => Math.floor(Date.now() / 1000);
  const TOKEN = JSON.stringify({ access_token: "tell-tale", token_type: "Bearer" });
  for (const [title, faults, fault] of [
    ["another nonce", { claims: { nonce: "x" } }, "unproven"],
    ["no nonce", { claims: { nonce: undefined } }, "unproven"],
    ["another issuer", { claims: { iss: "https://evil.example" } }, "unproven"],
    ["another audience", { claims: { aud: "another-client" } }, "unproven"],
    ["an ID token that is over", { claims: { exp: now() - 3_600 } }, "unproven"],
    ["another key", { wrongKey: true }, "unproven"],
    ["no ID token", { token: { status: 200, body: TOKEN } }, "unproven"],
    ["an ID token without signature", { token: { status: 200, body: unsigned() } }, "unproven"],
    ["no JSON", { token: { status: 200, body: "tell-tale" } }, "unproven"],
    ["a fault of its own", { token: { status: 500, body: '{"x":"tell-tale"}' } }, "unreachable"],
    ["an answer of 2 MB", { token: { status: 200, body: `{"x":"${"y".repeat(2_000_000)}"}` } }, "unreachable"],
    ["a person without a subject", { claims: { sub: "\u200b", email: "a@b.c", email_verified: true } }, "no-name"],
  ] as const) {
    it(`signs nobody in with ${title}.`, async () => {
      issuer.faults = faults;
      const browser = new TestBrowser();
      const last = await browser.follow(start());
      expect(last.fault).to.equal(fault);
      expect(last.headers.getSetCookie().join()).not.to.contain("acps_");
      expect(await sessionOf(browser, service)).to.equal(null);
      for (const text of [last.text, service.output()]) expect(text).not.to.match(/tell-tale|eyJ|an-access-token/);
      issuer.faults = {};
    });
  }

  it("refuses an answer in the name of another issuer, before the code goes anywhere.", async () => {
    const browser = new TestBrowser();
    const { url } = await browser.follow(start(), (to) => to.includes("/callback"));
    const asked = issuer.asked.length;
    for (const bad of [url.replace(/iss=[^&]*/, "iss=https%3A%2F%2Fevil.example"), url.replace(/&iss=[^&]*/, "")]) {
      const copy = new TestBrowser();
      const headers = { cookie: `acp_oidc=${browser.cookieOf(url, "acp_oidc")}` };
      expect((await copy.request(bad, { headers })).fault).to.equal("unproven");
    }
    expect(issuer.asked.length).to.equal(asked);
  });

  it("slows down who guesses codes.", async () => {
    const faults = new Set<string | undefined>();
    const browser = new TestBrowser();
    for (let count = 0; count < 80; count++) {
      const { url } = await browser.follow(start(), (to) => to.includes("/callback"));
      faults.add((await browser.request(url.replace(/code=[^&]*/, `code=guess${count}`))).fault);
    }
    expect([...faults]).to.deep.equal(["unproven", "busy"]);
    expect((await new TestBrowser().follow(start())).status).to.equal(200);
  });
});

function unsigned(): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const id_token = `${part({ alg: "none" })}.${part({ sub: "1", aud: CLIENT_ID, groups: ["acp-admins"] })}.`;
  return JSON.stringify({ access_token: "tell-tale", token_type: "Bearer", id_token });
}

async function expectEventually(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 10_000; Date.now() < end; ) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  expect.fail("it did not come to hold within 10 s");
}
