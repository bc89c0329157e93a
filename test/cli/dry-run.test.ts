import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { columnsOf } from "../../src/cli/columns.ts";
import { startService, type TestService } from "../support/service.ts";
import { agentctl, createFolder, type Folder, type Run } from "./harness.ts";

describe("agentctl preflight and probe", () => {
  let service: TestService;
  let folder: Folder;
  let agent_id: string;

  async function post(path: string, body: object): Promise<Record<string, Record<string, string>>> {
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json" };
    const response = await fetch(service.http + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as Record<string, Record<string, string>>;
  }
  async function run(command: string, file: object | string, ...more: readonly string[]): Promise<Run> {
    const path = await folder.file("request.json", typeof file === "string" ? file : JSON.stringify(file));
    return agentctl([command, path, ...more], { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey });
  }

  before(async () => {
    service = await startService();
    folder = await createFolder();
    agent_id = (await post("/v1/enforce/agents", { name: "payer" })).agent?.agent_id ?? "";
    const properties = { amount: { type: "number" }, to: { type: "string" } };
    const input_schema = { type: "object", properties, required: ["amount", "to"] };
    await post("/v1/enforce/tools", { name: "pay_invoice", input_schema });
    const conditions = { rules: [{ field: "amount", operator: ">", value: 500 }] };
    const rules = [{ tool: "pay_invoice", decision: "escalate", conditions }];
    await post("/v1/enforce/mandates", { name: "large payments", rules });
  });
  after(async () => {
    await service.stop();
    await folder.remove();
  });

  const pay = (amount: number) => ({ action_type: "pay", tool: "pay_invoice", metadata: { arguments: { amount } } });

  it("show what would come of a plan, and end with 1 if a step would not be allowed.", async () => {
    const { code, stdout } = await run("preflight", { agent_id, steps: [pay(5), pay(750)] });
    expect(code).to.equal(1);
    const lines = stdout.split("\n");
    expect(lines[0]).to.match(/^1 allowed, 0 blocked, 1 escalated; at .+Z, after \d+ entries$/);
    expect(lines.slice(1)).to.deep.equal([
      "   0  allow  by default, trust 50 to 50.2",
      "        DEFAULT: no mandate matched; the workspace allows by default",
      "        required and not given: `to`",
      '   1  escalate  by "large payments", trust 50.2 to 49.7',
      "        CONDITION_HELD: `amount > 500` holds; would allow at amount <= 500",
      "        required and not given: `to`",
      "",
    ]);
    expect((await run("preflight", { agent_id, steps: [pay(5)] })).code).to.equal(0);
  });

  it("show what each rule makes of one action and what would be allowed.", async () => {
    const { code, stdout } = await run("probe", { agent_id, ...pay(750) });
    expect(code).to.equal(1);
    expect(stdout.split("\n").slice(1)).to.deep.equal([
      "        CONDITION_HELD: `amount > 500` holds; would allow at amount <= 500",
      '  fires  escalate  "large payments" rules[0]',
      "           + amount > 500, is 750",
      "  would allow: amount 500 instead of 750",
      "",
    ]);
    const { json } = await run("probe", { agent_id, ...pay(5) }, "--json");
    expect(json()).to.include({ decision: "allow" });
  });

  it("show where each value of an argument comes from, and no value.", async () => {
    const properties = { to: { type: "array", items: { type: "string" } } };
    await post("/v1/enforce/tools", { name: "send_email", input_schema: { type: "object", properties } });
    const conditions = { arguments: [{ path: "to[]", kind: "destination" }], trusted: ["prompt"] };
    const rules = [{ type: "provenance", tool: "send_email", decision: "escalate", conditions }];
    await post("/v1/enforce/mandates", { name: "recipients", rules });
    const seen = [
      { source: "prompt", content: "mail ann@x.example" },
      { source: "result", tool: "read_inbox", content: "mail eve@x.example" },
    ];
    const to = ["ann@x.example", "eve@x.example", "who@x.example"];
    const action = { action_type: "mail.send", tool: "send_email", metadata: { arguments: { to } }, seen };
    const { stdout } = await run("probe", { agent_id, ...action });
    expect(stdout.split("\n").slice(1, 7)).to.deep.equal([
      "        PROVENANCE_NOT_TRUSTED: 2 of the 3 values of `to[]` (destination) were seen in a result of `read_inbox`; not in the request",
      '  fires  escalate  "recipients" rules[0]',
      '           + to[] not trusted ["prompt"]',
      "             - value 1 stands in prompt",
      "             + value 2 stands in untrusted, seen in read_inbox",
      "             + value 3 stands nowhere",
    ]);
  });

  it("show budgets with their amounts, and when the amount fits.", async () => {
    const properties = { amount: { type: "number" }, currency: { type: "string" } };
    await post("/v1/enforce/tools", { name: "transfer", input_schema: { type: "object", properties } });
    const sums = [{ tool: "transfer", field: "amount" }];
    const conditions = { mode: "budget", sums, currency: "EUR", max_total: 100, window_seconds: 60 };
    await post("/v1/enforce/mandates", {
      name: "budget",
      rules: [{ type: "sequence", decision: "block", conditions }],
    });
    const transfer = (amount: number) => {
      const metadata = { arguments: { amount, currency: "EUR" } };
      return { action_type: "transfer", tool: "transfer", metadata };
    };
    const { stdout } = await run("preflight", { agent_id, steps: [transfer(60), transfer(50)] });
    const lines = stdout.split("\n").map((line) => line.trim());
    const [first, second] = lines.filter((line) => line.includes(" of 100 EUR "));
    const who = `for agent ${agent_id}`;
    expect(first).to.match(
      new RegExp(`^60 of 100 EUR in 60 s ${who}, 40 left \\(60 reserved, 0 paid\\); the same amount fits from .*Z$`),
    );
    expect(second).to.match(
      new RegExp(`^110 of 100 EUR in 60 s ${who}, 0 left \\(110 reserved, 0 paid\\); the same amount fits from .*Z$`),
    );
    const reason = lines.find((line) => line.startsWith("BUDGET_EXCEEDED"));
    expect(reason).to.match(/; would allow at amount <= 40 EUR; 50 EUR from .* UTC$/);
  });

  it("say what is wrong with a file, and what the service says.", async () => {
    expect(await run("preflight", "[]")).to.include({ code: 2 });
    const { code, stderr } = await run("preflight", { agent_id });
    expect(code).to.equal(2);
    expect(stderr).to.contain("`steps`");
    const missing = await agentctl(["probe", folder.path("none.json")], {
      AGENTCTL_URL: service.http,
      AGENTCTL_KEY: "k",
    });
    expect(missing).to.include({ code: 2 });
    expect(missing.stderr).to.contain("ENOENT");
  });

  it("backtest a draft over the last days, looser agents first, in 100 columns.", async () => {
    await post("/v1/enforce/intercept", { agent_id, ...pay(750) });
    await post("/v1/enforce/intercept", { agent_id, ...pay(5) });
    const drafts = [
      { name: "no small ones", rules: [{ type: "trust", decision: "block", conditions: { below: 100 } }] },
    ];
    const path = await folder.file("drafts.json", JSON.stringify({ drafts }));
    const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
    const strict = await agentctl(["mandate", "backtest", path, "--since", "30d"], env);
    expect(strict.code, strict.stderr).to.equal(0);
    const lines = strict.stdout.split("\n");
    expect(lines[0]).to.match(/^2 decisions from .+Z to .+Z$/);
    expect(lines.slice(1, 5)).to.deep.equal([
      "  looser     0",
      "  stricter   2  (now 2 block)",
      "  unchanged  0",
      "  of the stricter ones people had approved 0, rejected 0; 1 wait",
    ]);
    expect(lines.every((line) => line.length <= 100)).to.equal(true);
    expect(lines[7]).to.match(/^payer +agt_\w+ +2 +0 +2$/);
    const list = await fetch(`${service.http}/v1/enforce/mandates`, { headers: { "x-api-key": service.adminKey } });
    const { mandates } = (await list.json()) as { mandates: { mandate_id: string }[] };
    const archives = mandates.map(({ mandate_id }) => mandate_id);
    const without = await folder.file("without.json", JSON.stringify({ archives }));
    const loose = await agentctl(["mandate", "backtest", without, "--json"], env);
    expect(loose.code).to.equal(1);
    expect(loose.json()).to.deep.include({ looser: 1, stricter: 0 });
  });

  it("backtest what a draft alone changes, and keep it for others to read.", async () => {
    const drafts = [{ name: "kept", rules: [{ type: "trust", decision: "block", conditions: { below: 100 } }] }];
    const path = await folder.file("kept.json", JSON.stringify({ drafts }));
    const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
    const { code, stdout } = await agentctl(["mandate", "backtest", path, "--only-drafts", "--keep"], env);
    expect(code).to.equal(0);
    const id = /^kept as (bkt_\w+)$/m.exec(stdout)?.[1] ?? "";
    const { backtest } = (await agentctl(["backtests", "show", id, "--json"], env)).json() as {
      readonly backtest: { readonly only_drafts: boolean; readonly drafts: readonly { readonly name: string }[] };
    };
    expect([backtest.only_drafts, backtest.drafts[0]?.name]).to.deep.equal([true, "kept"]);
    expect((await agentctl(["backtests", "show", "bkt_none"], env)).stderr).to.include("no backtest");
  });

  it("show how far a backtest is to a person, and nothing of it to a program.", async () => {
    const path = await folder.file("none.json", "{}");
    const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
    const watched = await agentctl(["mandate", "backtest", path], env, undefined, true);
    expect(watched.code).to.equal(0);
    const [first, ...shown] = watched.stderr.split("\r");
    expect([first, shown.pop()]).to.deep.equal(["", "\u001b[K"]);
    expect(shown.length).to.be.above(0);
    for (const bar of shown) expect(bar).to.match(/^\[#*-*\] \d+ % of \d+ entries$/);
    expect(watched.stdout).not.to.contain("[");
    expect((await agentctl(["mandate", "backtest", path], env)).stderr).to.equal("");
  });

  it("print the table of a backtest in 100 columns, whatever agents are called.", async () => {
    const names = ["支払い代理人".repeat(20), "a\u00a0".repeat(90), "👩💻".repeat(40), "é".repeat(200)];
    for (const name of names) {
      const { agent } = await post("/v1/enforce/agents", { name });
      await post("/v1/enforce/intercept", { agent_id: agent?.agent_id, action_type: "look" });
    }
    const draft = { name: "no looking", rules: [{ type: "trust", decision: "block", conditions: { below: 100 } }] };
    const path = await folder.file("drafts.json", JSON.stringify({ drafts: [draft] }));
    const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
    const { stdout } = await agentctl(["mandate", "backtest", path], env);
    const rows = stdout.split("\n").filter((line) => line.includes(" agt_"));
    expect(rows.length).to.be.at.least(names.length);
    for (const row of rows) expect(columnsOf(row), row).to.equal(97);
    for (const row of rows) expect(row).to.match(/ agt_[a-z0-9]{26} +\d+ +\d+ +\d+$/);
  });

  it("say so when the service breaks off.", async () => {
    const cut = createServer((_request, response) => {
      response.writeHead(200).write('{"progress":{"replayed":0,"total":10}}\n', () => response.destroy());
    });
    await once(cut.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(cut.address() as AddressInfo).port}`;
    const path = await folder.file("none.json", "{}");
    const { code, stderr } = await agentctl(["mandate", "backtest", path], { AGENTCTL_URL: url, AGENTCTL_KEY: "k" });
    cut.close();
    expect([code, stderr]).to.deep.equal([
      2,
      `agentctl: ${url} broke off its response to /v1/enforce/backtest: UND_ERR_SOCKET\n`,
    ]);
  });

  it("backtest files of mandates, in place of those in force with their names.", async () => {
    await post("/v1/enforce/intercept", { agent_id, ...pay(750) });
    const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
    const yaml = (name: string): string =>
      `name: ${name}\nrules:\n- tool: pay_invoice\n  decision: allow\n  conditions:\n    rules:\n    - {field: amount, operator: ">", value: 0}\n`;
    const run = async (text: string) =>
      agentctl(["mandate", "backtest", await folder.file("draft.yaml", text), "--json"], env);
    // In place of the rule that escalates; beside it, the stricter decides.
    expect((await run(yaml("Large Payments"))).json()).to.deep.include({ stricter: 0, looser: 2 });
    expect((await run(yaml("another"))).json()).to.deep.include({ stricter: 0, looser: 0 });
    expect((await run("{}")).json()).to.deep.include({ stricter: 0, looser: 0 });
    const broken = await run("name: [");
    expect([broken.code, broken.json().error]).to.deep.equal([2, broken.json().error]);
    expect(broken.json().error).to.match(/draft\.yaml:\d+:\d+: /);
  });

  it("refuse a window and drafts that make no sense.", async () => {
    const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
    const path = await folder.file("drafts.json", "{}");
    expect((await agentctl(["mandate", "backtest", path, "--since", "soon"], env)).stderr).to.contain("--since takes");
    const bad = await folder.file("bad.json", '{"drafts": [{"name": "x"}]}');
    const { code, stderr } = await agentctl(["mandate", "backtest", bad], env);
    expect(code).to.equal(2);
    expect(stderr).to.contain("drafts[0].rules");
  });
});
