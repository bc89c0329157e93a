import { expect } from "chai";
import { agentctl } from "../cli/harness.ts";
import { until } from "../gateway/until.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

interface Reply {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly body: {
    readonly workspace?: Readonly<Record<string, unknown>>;
    readonly error?: { readonly message: string; readonly details: readonly { metadata?: Record<string, string> }[] };
  };
}

describe("the rate of calls that a workspace sets", () => {
  let database: TestDatabase;
  let one: ServedHere;
  let other: ServedHere;
  before(async () => {
    database = await createTestDatabase();
    one = await serveHere({ databaseUrl: database.url });
    other = await serveHere({ databaseUrl: database.url, env: { ACP_ADMIN_KEY: one.adminKey } });
  });
  after(async () => {
    await one?.stop();
    await other?.stop();
    await database?.drop();
  });

  async function send(
    service: ServedHere,
    method: string,
    path: string,
    body?: object,
    key = one.adminKey,
  ): Promise<Reply> {
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const response = await fetch(service.http + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return {
      status: response.status,
      retryAfter: response.headers.get("retry-after"),
      body: (await response.json()) as Reply["body"],
    };
  }

  const WORKSPACE = "/v1/admin/workspaces/default";
  const set = (body: object): Promise<Reply> => send(one, "PATCH", WORKSPACE, body);
  const OFF = { rate_limit_key: "", rate_limit_workspace: "" };
  const list = (service: ServedHere, key?: string): Promise<Reply> =>
    send(service, "GET", "/v1/enforce/agents", undefined, key);

  async function newKey(): Promise<string> {
    const { body } = await send(one, "POST", "/v1/admin/keys", { name: "reader", role: "auditor" });
    return (body as { secret: string }).secret;
  }

  /** Sends calls until one is refused, at most ten. */
  async function refusal(service: ServedHere, key: string): Promise<Reply | undefined> {
    for (let n = 0; n < 10; n++) {
      const reply = await list(service, key);
      if (reply.status === 429) return reply;
    }
    return undefined;
  }

  /** Takes the limits away without a call that they could refuse. */
  afterEach(async () => {
    await until(async () => (await set(OFF)).status === 200);
  });

  it("is off at first, and shown as it was set.", async () => {
    const { workspace } = (await send(one, "GET", WORKSPACE)).body;
    expect(workspace).to.include(OFF);
    const changed = await set({ rate_limit_key: "100:500", rate_limit_workspace: "1000" });
    expect(changed.body.workspace).to.include({ rate_limit_key: "100:500", rate_limit_workspace: "1000" });
    const other_ = (await send(other, "GET", WORKSPACE)).body.workspace;
    expect(other_).to.include({ rate_limit_key: "100:500", rate_limit_workspace: "1000" });
  });

  for (const [limit, setting] of [
    ["key", "rate_limit_key"],
    ["workspace", "rate_limit_workspace"],
  ] as const) {
    it(`holds in every process from the next call on, and names itself: ${setting}.`, async () => {
      const key = await newKey();
      for (const service of [one, other]) expect((await list(service, key)).status).to.equal(200);
      await set({ [setting]: "2:4" });
      for (const service of [one, other]) {
        let refused: Reply | undefined;
        // The other process hears of it by a notification.
        await until(async () => {
          refused = await refusal(service, key);
          return refused !== undefined;
        });
        expect(refused?.retryAfter).to.equal("1");
        const metadata = refused?.body.error?.details.find((each) => each.metadata !== undefined)?.metadata;
        expect(metadata).to.include({ limit, setting, per_second: "2", burst: "4", retry_after_seconds: "1" });
        expect(refused?.body.error?.message).to.contain(`the ${limit} has used up its rate (\`${setting}\``);
      }
    });
  }

  it("counts keys apart, and each process alone.", async () => {
    const [first, second] = [await newKey(), await newKey()];
    await set({ rate_limit_key: "0.01:3" });
    for (const service of [one, other]) {
      await until(async () => (await refusal(service, first)) !== undefined);
      expect((await list(service, second)).status).to.equal(200);
    }
    // A new rate fills the buckets: two processes admit twice as many.
    await set({ rate_limit_key: "0.01:2" });
    const admitted = async (service: ServedHere): Promise<number> => {
      const statuses: number[] = [];
      for (let n = 0; n < 4; n++) statuses.push((await list(service, first)).status);
      return statuses.filter((status) => status === 200).length;
    };
    await until(async () => (await list(other, second)).status === 200 && (await list(one, second)).status === 200);
    expect((await admitted(one)) + (await admitted(other))).to.equal(4);
  });

  it("leaves a person at the dashboard alone, who can change it.", async () => {
    const signedIn = await fetch(`${one.http}/dashboard/sign-in`, {
      method: "POST",
      headers: { origin: one.http, "content-type": "application/json" },
      body: JSON.stringify({ key: one.adminKey }),
    });
    const cookie = (signedIn.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
    const { csrf_token: token } = (await signedIn.json()) as { csrf_token: string };
    await set({ rate_limit_workspace: "0.001:1" });
    expect((await refusal(one, one.adminKey))?.status).to.equal(429);
    const headers = { cookie, "x-csrf-token": token, "content-type": "application/json" };
    for (let n = 0; n < 3; n++)
      expect((await fetch(`${one.http}/v1/enforce/agents`, { headers })).status).to.equal(200);
    const init = { method: "PATCH", headers, body: JSON.stringify(OFF) };
    expect((await fetch(one.http + WORKSPACE, init)).status).to.equal(200);
    expect((await list(one)).status).to.equal(200);
  });

  it("is refused in another form, at its field.", async () => {
    for (const rate of ["0", "-1", "fast", "10:0", "1e3", "10:", " 10", "0.0001"]) {
      for (const setting of ["rate_limit_key", "rate_limit_workspace"]) {
        const { status, body } = await set({ [setting]: rate });
        expect(status, rate).to.equal(400);
        expect(body.error?.message).to.contain(`\`${setting}\` must be calls per second, such as \`100\``);
      }
    }
    expect((await send(one, "GET", WORKSPACE)).body.workspace).to.include(OFF);
  });

  it("is set with agentctl, and needs an admin.", async () => {
    const env = { AGENTCTL_URL: one.http, AGENTCTL_KEY: one.adminKey };
    const changed = await agentctl(["workspaces", "update", "default", "--rate-limit-key", "50:60"], env);
    expect(changed.code, changed.stderr).to.equal(0);
    expect((await send(one, "GET", WORKSPACE)).body.workspace).to.include({ rate_limit_key: "50:60" });
    const ended = await agentctl(["workspaces", "update", "default", "--rate-limit-key", ""], env);
    expect(ended.code, ended.stderr).to.equal(0);
    expect((await send(one, "GET", WORKSPACE)).body.workspace).to.include(OFF);
    const { body } = await send(one, "POST", "/v1/admin/keys", { name: "operator", role: "operator" });
    const operator = (body as { secret: string }).secret;
    expect((await send(one, "PATCH", WORKSPACE, { rate_limit_key: "1" }, operator)).status).to.equal(403);
  });
});
