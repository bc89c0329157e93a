import { expect } from "chai";
import { answers, completion, type ModelServer, startModelServer } from "../semantic/model-server.ts";
import { startService, type TestService } from "../support/service.ts";
import { agentctl, type Run } from "./harness.ts";

describe("agentctl mandate ask", () => {
  let model: ModelServer;
  let service: TestService;
  let agent_id: string;
  let mandate_id: string;

  async function send(method: string, path: string, body: object): Promise<Record<string, Record<string, string>>> {
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json" };
    const response = await fetch(service.http + path, { method, headers, body: JSON.stringify(body) });
    return (await response.json()) as Record<string, Record<string, string>>;
  }
  const ask = (...more: readonly string[]): Promise<Run> =>
    agentctl(["mandate", "ask", ...more], { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey });

  before(async () => {
    model = await startModelServer();
    const env = { ACP_GUARD_URL: model.url, ACP_GUARD_MODEL: "small" };
    service = await startService({ env });
    agent_id = (await send("POST", "/v1/enforce/agents", { name: "payer" })).agent?.agent_id ?? "";
    const input_schema = { type: "object", properties: { amount: { type: "number" } } };
    await send("POST", "/v1/enforce/tools", { name: "pay_invoice", input_schema });
    const conditions = { rules: [{ field: "amount", operator: ">", value: 500 }] };
    const mandate = { name: "large payments", rules: [{ tool: "pay_invoice", decision: "block", conditions }] };
    mandate_id = (await send("POST", "/v1/enforce/mandates", mandate)).mandate?.mandate_id ?? "";
    await send("PUT", `/v1/enforce/mandates/${mandate_id}`, { ...mandate, priority: 2 });
  });
  after(async () => {
    await service.stop();
    await model.close();
  });

  it("may prints the answer and the rules it rests on, and ends with 1 for what would not be allowed.", async () => {
    const { code, stdout } = await ask("may", "--agent=payer", "--tool=pay_invoice", '--arguments={"amount": 750}');
    expect(code).to.equal(1);
    expect(stdout.split("\n")).to.deep.equal([
      `No: "pay_invoice" by "payer" (${agent_id}) would be blocked by mandate "large payments". \`amount > 500\` holds. ` +
        "It would allow at amount <= 500.",
      '  "large payments" v2 rules[0].conditions.rules[0]: `amount > 500` holds; would allow at amount <= 500.',
      "",
    ]);
    const allowed = await ask("may", "--agent", agent_id, "--action-type", "look", "--json");
    expect(allowed.code).to.equal(0);
    expect(allowed.json()).to.include({ form: "may", holds: true });
    expect(allowed.json().asked).to.deep.include({
      may: { agent: agent_id, tool: null, action_type: "look", arguments: null },
    });
  });

  it("has a subcommand for each other question.", async () => {
    const { decision_id = "" } = (await send("POST", "/v1/enforce/intercept", {
      agent_id,
      action_type: "look",
    })) as unknown as Record<string, string>;
    for (const [args, text] of [
      [["who-may", "--tool", "pay_invoice"], "depend on what the call carries"],
      [["limits", "--agent", "payer"], "No limit applies to"],
      [["why", decision_id, "--supposed", "block"], "It was not blocked."],
      [["changed", "large payments"], "`priority` was 0 and is 2."],
      [["changed", mandate_id, "--from", "1", "--to", "2"], "`priority` was 0 and is 2."],
      [["never-fire", "--days", "7"], "of the last 7 days"],
      [["shadowed"], "0 are proved to be shadowed"],
    ] as const) {
      const { code, stdout, stderr } = await ask(...args);
      expect([code, stderr], args.join(" ")).to.deep.equal([0, ""]);
      expect(stdout).to.contain(text).and.not.contain("understood as");
    }
  });

  it("says what is missing, and what the workspace does not have.", async () => {
    for (const [args, text] of [
      [["may", "--tool", "pay_invoice"], "--agent is missing"],
      [["may", "--agent", "payer"], "`may` must have `tool` or `action_type`"],
      [["may", "--agent", "payer", "--tool", "pay_invoice", "--arguments", "[1]"], "--arguments must be a JSON object"],
      [["limits"], "--agent is missing"],
      [["limits", "--agent", "nobody"], "`limits.agent` names an agent `nobody`, which the workspace does not have"],
      [["why"], "expected <decision> after `mandate ask why`"],
      [["changed", "large payments", "--from", "1"], "must have both `from_version` and `to_version`, or neither"],
      [["never-fire", "--days", "-1"], "argument"],
      [["never-fire", "--days", "week"], "--days must be a whole number"],
      [["shadowed", "rules"], "expected no arguments after `mandate ask shadowed`"],
      [[], "expected <question> after `mandate ask`"],
    ] as const) {
      const { code, stderr } = await ask(...args);
      expect(code, args.join(" ")).to.equal(2);
      expect(stderr).to.contain(text);
    }
  });

  it("takes a question in one's own words, and shows how it was understood.", async () => {
    const may = { agent: "payer", tool: "pay_invoice", arguments: { amount: 750 } };
    model.behaviour = answers(completion(JSON.stringify({ may })));
    const { code, stdout, stderr } = await ask("may the payer pay an invoice with an amount of 750?");
    expect([code, stderr]).to.deep.equal([1, ""]);
    const [understood, answer] = stdout.split("\n");
    expect(understood).to.equal(`understood as ${JSON.stringify({ may })}`);
    expect(answer).to.match(/^No: "pay_invoice" by "payer" /);
    model.behaviour = answers(completion("{}"));
    const refused = await ask("how is the weather");
    expect(refused.code).to.equal(2);
    expect(refused.stderr).to.contain("`question` was not understood; ask by one of the fields `may`, `who_may`");
  });

  it("explains itself, each subcommand on its own.", async () => {
    expect((await ask("--help")).stdout).to.match(/^agentctl mandate ask <question>\n/);
    expect((await ask("may", "--help")).stdout)
      .to.match(/^agentctl mandate ask may\n/)
      .and.contain("--action-type <type>");
    const { stdout } = await agentctl(["mandate", "--help"]);
    for (const name of ["may", "who-may", "limits", "why <decision>", "changed <mandate>", "never-fire", "shadowed"]) {
      expect(stdout).to.contain(`agentctl mandate ask ${name}`);
    }
  });
});
