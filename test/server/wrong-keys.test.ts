import { expect } from "chai";
import pino from "pino";
import { csrfTokenOf } from "../../src/server/dashboard/cookie.ts";
import { networkOf, WrongKeys } from "../../src/server/wrong-keys.ts";
import { startService, type TestService } from "../support/service.ts";
import { ADMIN_KEY, GOOD, type Harness, startHarness, WIRES } from "./harness.ts";

const WRONG = "acp_guess_a_key_of_mine_0123456789";
const BURST = 60;
const CONNECT = "POST /agentcontrol.v1.AgentService/ListAgents";

for (const wire of WIRES) {
  describe(`wrong keys over ${wire}`, () => {
    let harness: Harness;

    before(async () => {
      harness = await startHarness();
    });

    after(() => harness.stop());

    it("are refused as too many from one address, while the right key is served; the log never shows a key.", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: BURST + 20 }, () => harness.intercept(wire, GOOD, { key: WRONG })),
      );
      const reasons = outcomes.map(({ reason }) => reason);
      expect(reasons.filter((reason) => reason === "KEY_INVALID").length).to.be.within(BURST, BURST + 10);
      const late = outcomes.find(({ reason }) => reason === "TOO_MANY_WRONG_KEYS");
      expect(late?.code).to.equal("RESOURCE_EXHAUSTED");
      for (let turn = 0; turn < 5; turn++)
        expect((await harness.intercept(wire, GOOD, { key: ADMIN_KEY })).code).to.equal("OK");
      const logged = harness.logged.join("");
      expect(logged).to.include('"msg":"wrong key"').and.include('"address":"127.0.0.1"');
      expect(logged.split("too many wrong keys").length - 1).to.equal(1);
      expect(logged).to.not.include(WRONG.slice(0, 12));
    });
  });
}

/** Every way in beside the wires of the API, with the status and the text of a refusal. */
const ROUTES = [
  { name: "the MCP gateway", path: "/mcp/files", body: { jsonrpc: "2.0", id: 1, method: "ping" }, status: 429 },
  { name: "the hooks of coding agents", path: "/v1/hooks/claude-code", body: {}, status: 200 },
  { name: "the redaction proxy", path: "/api/redact/default/openai/v1/responses", body: { input: "" }, status: 429 },
  { name: "the dashboard's sign-in", path: "/dashboard/sign-in", body: { key: WRONG }, status: 429 },
  { name: "the REST interface", path: "/v1/enforce/intercept", body: {}, status: 429 },
];

describe("wrong keys through every other way in", () => {
  let service: TestService;
  before(async () => {
    service = await startService();
  });
  after(() => service?.stop());

  const post = (path: string, body: object, key: string): Promise<Response> =>
    fetch(service.http + path, {
      method: "POST",
      headers: { "x-api-key": key, "x-agent-id": "a", "content-type": "application/json", origin: service.http },
      body: JSON.stringify(body),
    });

  it("count together: an address that used up its share on one is refused on all, and the right key is served.", async () => {
    for (let index = 0; index < BURST; index++) {
      const { path, body } = ROUTES[index % ROUTES.length] as (typeof ROUTES)[number];
      expect(await (await post(path, body, WRONG)).text(), path).to.include("unknown, expired or revoked");
    }
    for (const { name, path, body, status } of ROUTES) {
      let refused: number | undefined;
      // One more key a second is free.
      for (let turn = 0; turn < BURST && refused === undefined; turn++) {
        const reply = await post(path, body, WRONG);
        if ((await reply.text()).includes("too many wrong keys")) refused = reply.status;
      }
      expect(refused, name).to.equal(status);
    }
    await service.rest("GET /v1/enforce/agents");
  });
});

describe("wrong cookies of the dashboard", () => {
  let service: TestService;
  beforeEach(async () => {
    service = await startService();
  });
  afterEach(() => service?.stop());

  const PATHS = ["GET /v1/enforce/agents", "GET /dashboard/session", "POST /dashboard/sign-out", CONNECT];

  /** Calls with a cookie and the token that belongs to it. */
  function send(target: string, secret: string): Promise<Response> {
    const [method = "", path = ""] = target.split(" ");
    const token = csrfTokenOf(/^acps_[a-z2-7]+$/.test(secret) ? secret : "");
    const headers = { cookie: `a=b; acp_sign_in=${secret}`, "x-csrf-token": token, "content-type": "application/json" };
    return fetch(service.http + path, { method, headers, ...(method === "POST" && { body: "{}" }) });
  }

  it("count with wrong keys, through every way in.", async () => {
    for (let index = 0; index < BURST; index++) {
      const secret = index % 3 === 0 ? `guess-${index}` : `acps_${"a".repeat(40)}${"b".repeat(index)}`;
      const answer = await send(PATHS[index % PATHS.length] as string, secret);
      expect(answer.status, `${index}`).to.be.oneOf([200, 401]);
    }
    for (const target of PATHS) {
      const reasons = new Set<string>();
      for (let turn = 0; turn < 5; turn++) {
        const text = await (await send(target, `acps_${"c".repeat(52)}`)).text();
        reasons.add(/TOO_MANY_WRONG_KEYS/.exec(text)?.[0] ?? text);
      }
      expect([...reasons], target).to.include("TOO_MANY_WRONG_KEYS");
    }
    const key = await fetch(`${service.http}/v1/enforce/agents`, { headers: { "x-api-key": "acp_guess" } });
    expect(key.status, "a wrong key after them").to.be.oneOf([401, 429]);
    await service.rest("GET /v1/enforce/agents");
  });

  it("are sent once by a browser, since the answer removes them.", async () => {
    const secret = `acps_${"d".repeat(52)}`;
    for (const target of ["GET /dashboard/session", "POST /dashboard/sign-out"]) {
      const answer = await send(target, secret);
      expect(answer.status).to.equal(200);
      expect(answer.headers.getSetCookie().join()).to.match(/^acp_sign_in=; .*Max-Age=0$/);
      expect(((await answer.json()) as { session: null }).session).to.equal(null);
    }
    // At once: one more is free each second.
    const answers = await Promise.all(
      Array.from({ length: 2 * BURST }, (_, index) =>
        send("GET /dashboard/session", `${secret}${"e".repeat(index % 20)}`),
      ),
    );
    const late = answers.find(({ status }) => status === 429);
    expect(late?.headers.getSetCookie().join()).to.match(/^acp_sign_in=; .*Max-Age=0$/);
    const without = await fetch(`${service.http}/dashboard/session`);
    expect(without.status).to.equal(200);
  });
});

describe("wrong keys", () => {
  const log = pino({ level: "silent" });
  const call = { requestId: "r", method: "m" };

  it("may come again, one a second.", () => {
    let nowMs = 0;
    const keys = new WrongKeys(log, () => nowMs);
    const isRefused = (address: string): boolean => keys.refusal({ ...call, address }) !== undefined;
    for (let index = 0; index < BURST; index++) expect(isRefused("192.0.2.1")).to.equal(false);
    expect([isRefused("192.0.2.1"), isRefused("192.0.2.2")]).to.deep.equal([true, false]);
    nowMs = 1_000;
    expect([isRefused("192.0.2.1"), isRefused("192.0.2.1")]).to.deep.equal([false, true]);
  });

  it("are logged as too many once, until the address was quiet for a minute.", () => {
    let nowMs = 0;
    const warnings: string[] = [];
    const keys = new WrongKeys({ info: () => {}, warn: (_details, message) => warnings.push(message) }, () => nowMs);
    const guess = (times: number): void => {
      for (let index = 0; index < times; index++) keys.refusal({ ...call, address: "192.0.2.1" });
    };
    guess(BURST + 5);
    for (; nowMs < 30_000; nowMs += 500) guess(1);
    expect(warnings).to.have.length(1);
    nowMs += BURST * 1000;
    guess(BURST + 1);
    expect(warnings).to.have.length(2);
  });

  it("of one IPv6 network count together.", () => {
    for (const address of ["2001:db8:0:1::5", "2001:DB8:0:1:ffff::", "2001:db8::1:0:0:0:9", "2001:db8:0:1::5%eth0"])
      expect(networkOf(address)).to.equal("2001:db8:0:1::/64");
    expect(networkOf("::1")).to.equal("0:0:0:0::/64");
    expect(networkOf("::ffff:192.0.2.7")).to.equal("192.0.2.7");
  });
});
