import { expect } from "chai";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { agentctl, type Run } from "./harness.ts";

describe("agentctl mandate ask", () => {
  let database: TestDatabase;
  let server: TestServer;
  let agent_id: string;

  async function post(path: string, body: object): Promise<Record<string, Record<string, string>>> {
    const headers = { "x-api-key": server.adminKey, "content-type": "application/json" };
    const response = await fetch(server.http + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as Record<string, Record<string, string>>;
  }
  const ask = (...more: readonly string[]): Promise<Run> =>
    agentctl(["mandate", "ask", ...more], { AGENTCTL_URL: server.http, AGENTCTL_KEY: server.adminKey });

  before(async () => {
    database = await createTestDatabase();
    server = await startServer({ databaseUrl: database.url });
    agent_id = (await post("/v1/enforce/agents", { name: "payer" })).agent?.agent_id ?? "";
    const input_schema = { type: "object", properties: { amount: { type: "number" } } };
    await post("/v1/enforce/tools", { name: "pay_invoice", input_schema });
    const conditions = { rules: [{ field: "amount", operator: ">", value: 500 }] };
    const rules = [{ tool: "pay_invoice", decision: "block", conditions }];
    await post("/v1/enforce/mandates", { name: "large payments", rules });
  });
  after(async () => {
    await server.stop();
    await database.drop();
  });

  it("prints the answer and the rules it rests on, and ends with 1 for what would not be allowed.", async () => {
    const { code, stdout } = await ask('may payer call pay_invoice with {"amount": 750}?');
    expect(code).to.equal(1);
    expect(stdout.split("\n")).to.deep.equal([
      `No: "pay_invoice" by "payer" (${agent_id}) would be blocked by mandate "large payments". \`amount > 500\` holds. ` +
        "It would allow at amount <= 500.",
      '  "large payments" v1 rules[0].conditions.rules[0]: `amount > 500` holds; would allow at amount <= 500.',
      "",
    ]);
    const allowed = await ask('may payer call pay_invoice with {"amount": 5}', "--json");
    expect(allowed.code).to.equal(0);
    expect(allowed.json()).to.include({ form: "may", holds: true });
    expect((await ask("which rules are shadowed")).code).to.equal(0);
  });

  it("says which forms there are, and what the workspace does not have.", async () => {
    const unknown = await ask("what limit aply to payer");
    expect(unknown.code).to.equal(2);
    expect(unknown.stderr).to.contain("did you mean `what limits apply to <agent>`?");
    const absent = await ask("what limits apply to nobody");
    expect(absent.code).to.equal(2);
    expect(absent.stderr).to.contain("names an agent `nobody`, which the workspace does not have");
    expect((await ask()).code).to.equal(2);
  });
});
