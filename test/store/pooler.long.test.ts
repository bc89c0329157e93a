/* Replicas behind PgBouncer, which gives two connections to all of them, for one transaction at a time. */
import { expect } from "chai";
import { agentctl } from "../cli/harness.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";
import { describeWithPackages } from "../support/debian.ts";
import { until } from "../support/harness.ts";
import { LOGIN_LIMITS, sessionUrlOf, startPooler } from "../support/pooler.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

describeWithPackages("a database behind a pooler of transactions", ["pgbouncer"], function () {
  this.timeout(60_000);
  const stopped = new AsyncDisposableStack();
  const adminKey = "an-admin-key-of-the-test";
  let database: TestDatabase;
  let pooled: string;
  let env: Record<string, string>;

  before(async () => {
    database = await createTestDatabase();
    stopped.defer(() => database.drop());
    const direct = sessionUrlOf(database.url);
    const pooler = await startPooler(direct);
    stopped.defer(() => pooler.stop());
    pooled = pooler.url;
    env = {
      ACP_ADMIN_KEY: adminKey,
      DATABASE_URL: pooled,
      ACP_DATABASE_POOLER: "transaction",
      ACP_DATABASE_DIRECT_URL: direct,
    };
  });
  after(() => stopped.disposeAsync());

  const start = (): Promise<ServedHere> => serveHere({ databaseUrl: pooled, env });

  async function call(service: ServedHere, method: string, path: string, body?: object): Promise<never> {
    const headers = { "x-api-key": adminKey, "content-type": "application/json" };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(service.http + path, { method, headers, ...sent });
    expect(response.status, `${method} ${path}`).to.equal(200);
    return (await response.json()) as never;
  }

  it("is refused until the login has its limits, with the commands that give them.", async () => {
    const login = new URL(database.url).username;
    const fault = await start().then(
      () => expect.fail("it started"),
      (error: Error) => error.message,
    );
    const commands = /let its owner run: (.*)$/.exec(fault)?.[1] ?? "";
    expect(commands).to.equal(LOGIN_LIMITS.map((limit) => `alter role "${login}" set ${limit}`).join("; "));
    await withClient(database.ownerUrl, (client) => client.query(commands));
    stopped.defer(async () => {
      await withClient(database.ownerUrl, (client) => client.query(`alter role "${login}" reset all`));
    });
    await (await start()).stop();
  });

  it("serves replicas that decide, limit, wake each other and change everything, on two connections.", async () => {
    const replicas = [await start(), await start()] as const;
    const [first, second] = replicas;
    try {
      const { agent } = await call(first, "POST", "/v1/enforce/agents", { name: "clerk" });
      const { agent_id } = agent as { agent_id: string };
      const tooMuch = { field: "amount", operator: ">", value: 100 };
      await call(first, "POST", "/v1/enforce/mandates", {
        name: "payments",
        rules: [
          { type: "action", decision: "escalate", conditions: { match_action_types: ["wire"] } },
          {
            type: "metadata",
            decision: "block",
            conditions: { operator: "AND", rules: [tooMuch] },
          },
        ],
      });
      await call(second, "POST", "/api/redact/default/values", {
        values: [{ kind: "person_name", value: "Zeb Quist" }],
      });
      const answers = await Promise.all(
        Array.from({ length: 400 }, (_, index) =>
          call(replicas[index % 2] ?? first, "POST", "/v1/enforce/intercept", {
            agent_id,
            action_type: index % 10 === 0 ? "wire" : "pay",
            metadata: { amount: index },
          }),
        ),
      );
      const decisions = (answers as { decision: string }[]).map(({ decision }) => decision);
      expect(decisions.filter((each) => each === "allow")).to.have.length(90);
      // The other replica learns of the answer by a notification.
      const { escalations } = await call(second, "GET", "/v1/enforce/escalations?page_size=1");
      const [{ escalation_id } = { escalation_id: "" }] = escalations as { escalation_id: string }[];
      await call(first, "POST", `/v1/enforce/escalations/${escalation_id}/resolve`, {
        resolution: "approved",
        note: "",
      });
      await until(async () => {
        const { status } = await call(second, "GET", `/v1/enforce/escalations/${escalation_id}/status`);
        return status === "approved";
      });
      const verified = await agentctl(["vault", "verify"], { AGENTCTL_URL: second.http, AGENTCTL_KEY: adminKey });
      expect(verified.stdout).to.match(/^VERIFIED/);
      for (const { output } of replicas) expect(output()).not.to.match(/"level":"(warn|error|fatal)"/);
    } finally {
      await Promise.all(replicas.map((each) => each.stop()));
    }
  });

  it("is found by doctor, and migrated past the pooler.", async () => {
    const settings: Record<string, string> = { ...env, ACP_SIGNING_KEY: "none", ACP_ENCRYPTION_KEY: "x".repeat(40) };
    const found = await agentctl(["doctor"], settings);
    expect(found.stdout).to.match(/the pooler at `127\.0\.0\.1:\d+` answers/);
    const { ACP_DATABASE_DIRECT_URL: _, ...missing } = settings;
    expect((await agentctl(["doctor"], missing)).stdout).to.include("ACP_DATABASE_DIRECT_URL must be set");
    const status = await agentctl(["migrate", "status"], { ...settings, DATABASE_URL: pooled });
    expect(status.stdout).to.match(/^UP TO DATE/);
  });
});
