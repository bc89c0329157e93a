import { readFile, stat } from "node:fs/promises";
import { expect } from "chai";
import { withClient } from "../support/database.ts";
import type { Run } from "./harness.ts";
import { agentctl } from "./harness.ts";
import { type Served, startServed } from "./served.ts";

/** Commands of every kind of object that list, and the member of their answer. */
const LISTS: readonly (readonly [words: string, rows: string])[] = [
  ["agents list", "agents"],
  ["keys list", "keys"],
  ["tools list", "tools"],
  ["mandates list", "mandates"],
  ["escalations list", "escalations"],
  ["decisions list", "decisions"],
  ["limits list", "limits"],
  ["workspaces list", "workspaces"],
  ["servers list", "servers"],
  ["webhooks list", "webhooks"],
  ["departments list", "departments"],
  ["revocations list", "revocations"],
  ["incidents list", "incidents"],
  ["sessions list", "sessions"],
  ["credentials list", "credentials"],
  ["grants list", "grants"],
  ["temporal-windows list", "temporal_windows"],
  ["intent-contracts list", "intent_contracts"],
  ["federation-tokens list", "federation_tokens"],
  ["mcp-tool-policies list", "mcp_tool_policies"],
];

const rule = {
  type: "action",
  decision: "escalate",
  description: "someone looks",
  conditions: { match_action_types: ["pay"] },
};

describe("agentctl for the objects of the service", () => {
  let served: Served;
  let agentId: string;
  before(async () => {
    served = await startServed();
    const created = await served.agentctl("agents", "create", "clerk", "--capability", "pay", "--json");
    expect(created.code, created.stderr).to.equal(0);
    agentId = (created.json().agent as { agent_id: string }).agent_id;
    await served.rest("POST /v1/enforce/mandates", { name: "house", rules: [rule] });
  });
  after(() => served?.stop());

  const ok = async (...argv: readonly string[]): Promise<Run> => {
    const run = await served.agentctl(...argv);
    expect(run.code, run.stderr).to.equal(0);
    return run;
  };

  for (const [words, rows] of LISTS) {
    it(`lists by \`${words}\`, as a table and as the service's JSON.`, async () => {
      const argv = words.split(" ");
      const listed = await ok(...argv, "--json");
      expect(listed.json()[rows]).to.be.an("array");
      expect((await ok(...argv)).stdout).to.match(/^(no |[A-Z]|\S)/);
      expect((await served.agentctl(...argv, "--frobnicate")).code).to.equal(2);
    });
  }

  it("prints a table with aligned columns, readable times and whole ids, cut to the terminal's width.", async () => {
    await ok("agents", "create", `a name of ${"many ".repeat(30)}words`);
    const env = { AGENTCTL_URL: served.http, AGENTCTL_KEY: served.adminKey };
    const { stdout } = await agentctl(["agents", "list"], env, undefined, false, undefined, { columns: 100 });
    const [head = "", ...rows] = stdout.trimEnd().split("\n");
    expect(head).to.match(/^ID +NAME +STATUS +TRUST/);
    expect(rows.some((row) => row.startsWith(agentId))).to.equal(true);
    expect(stdout)
      .to.match(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/)
      .and.include("…");
    const at = head.indexOf("STATUS");
    for (const row of rows) expect(row.slice(at - 2, at + 1)).to.match(/^ {2}\S/);
    for (const row of rows) expect(row.length).to.be.at.most(100);
  });

  it("lists the fullest limits first when asked, with the group that used most.", async () => {
    const limit = (name: string, max_count: number) => ({
      name,
      rules: [
        {
          type: "sequence",
          decision: "block",
          conditions: { mode: "velocity", match_action_types: ["refund"], max_count, window_seconds: 3_600 },
        },
      ],
    });
    await served.rest("POST /v1/enforce/mandates", limit("half used", 2));
    await served.rest("POST /v1/enforce/mandates", limit("hardly used", 50));
    await served.intercept(agentId, { action_type: "refund" });
    const [head = "", first, second] = (await ok("limits", "list", "--order", "fill")).stdout.split("\n");
    expect(head).to.match(/ FULL +FULLEST +FITS FROM +WINDOW$/);
    expect(first).to.match(/^half used .* 50 % +1 by clerk +·{23}█$/);
    expect(second).to.match(/^hardly used .* 2 % +1 by clerk +·{23}█$/);
    expect((await ok("limits", "list")).stdout.split("\n")[1]).to.match(/^hardly used /);
    for (let count = 0; count < 2; count++) await served.intercept(agentId, { action_type: "refund" });
    const [, full] = (await ok("limits", "list", "--order", "fill")).stdout.split("\n");
    expect(full).to.match(/^half used .* 100 % +3 by clerk +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z +·{23}█$/);
    expect((await served.agentctl("limits", "list", "--order", "size")).code).to.equal(1);
  });

  it("prints the JSON of the service unchanged.", async () => {
    const { agents } = (await ok("agents", "list", "--json")).json();
    const direct = (await served.rest("GET /v1/enforce/agents?page_size=50")) as unknown as { agents: unknown };
    expect(agents).to.deep.equal(direct.agents);
    const shown = (await ok("agents", "show", agentId, "--json")).json();
    expect(shown).to.deep.equal(await served.rest(`GET /v1/enforce/agents/${agentId}`));
  });

  it("reads as many pages as `--limit` or `--all` ask, and says that there are more.", async () => {
    for (let count = 0; count < 3; count += 1) await ok("departments", "create", `department ${count}`);
    const some = await ok("departments", "list", "--limit", "2");
    expect(some.stdout.trimEnd().split("\n")).to.have.length(3);
    expect(some.stderr).to.include("there are more");
    const all = await ok("departments", "list", "--all", "--json");
    expect(all.json().departments).to.have.length(3);
    expect(all.json().next_page_token).to.equal(null);
    for (const wrong of ["0", "x", "1.5"]) {
      expect((await served.agentctl("departments", "list", "--limit", wrong)).code).to.equal(2);
    }
  });

  it("approves and rejects what waits for a person.", async () => {
    const first = await served.intercept(agentId, { action_type: "pay" });
    expect((await ok("escalations", "list", "--status", "pending")).stdout).to.include(first.escalation_id);
    expect((await ok("escalations", "show", first.escalation_id)).stdout).to.include("someone looks");
    expect((await ok("escalations", "context", first.escalation_id)).stdout).to.include("usual_from");
    const approved = await ok("escalations", "approve", first.escalation_id, "--note", "fine");
    expect(approved.stdout).to.match(/^approved esc_/);
    const again = await served.agentctl("escalations", "reject", first.escalation_id);
    expect([again.code, again.stdout]).to.deep.equal([1, ""]);
    expect(again.stderr).to.match(/ 409: /);
    const second = await served.intercept(agentId, { action_type: "pay", action_content: "more" });
    const rejected = await ok("escalations", "reject", second.escalation_id, "--json");
    expect(rejected.json().escalation).to.include({ status: "rejected" });
    expect((await ok("decisions", "list", "--agent", agentId, "--decision", "escalate")).stdout).to.include("dec_");
    expect((await ok("decisions", "show", first.decision_id)).stdout).to.include("pay");
  });

  it("settles the outcome of an allowed action, and finds it by that.", async () => {
    const registered = await ok("agents", "create", "watcher", "--json");
    const { agent_id: watcher } = registered.json().agent as { agent_id: string };
    const { decision_id: decisionId } = await served.intercept(watcher, { action_type: "look" });
    const settled = await ok("decisions", "settle", decisionId, "failed", "--error", "no answer");
    expect(settled.stdout).to.match(/^settled the outcome of dec_\w+ failed\n/);
    const listed = await ok("decisions", "list", "--outcome", "failed", "--json");
    expect(listed.json().decisions).to.have.length(1);
    const again = await served.agentctl("decisions", "settle", decisionId, "succeeded", "--amount", "12.50");
    expect([again.code, again.stderr.includes("the first report stands")]).to.deep.equal([1, true]);
    const wrong = await served.agentctl("decisions", "settle", decisionId, "succeeded", "--amount", "12,50");
    expect(wrong.stderr).to.include("--amount is a number such as 12.50");
    const { decision_id: paid } = await served.intercept(watcher, { action_type: "look" });
    const answer = await ok("decisions", "settle", paid, "succeeded", "--amount", "12.50", "--json");
    expect(answer.json().outcome).to.include({ status: "succeeded", amount: 12.5 });
    const kept = await ok("workspaces", "update", "default", "--outcomes", "all", "--outcome-timeout", "60", "--json");
    expect(kept.json().workspace).to.include({ outcomes: "all", outcome_timeout_seconds: 60 });
    await ok("workspaces", "update", "default", "--outcomes", "tracked");
  });

  it("shows a new secret once, or writes it into a file of the owner alone.", async () => {
    const shown = await ok("keys", "create", "plain", "--role", "operator");
    expect(shown.stdout)
      .to.match(/^created key key_/)
      .and.match(/secret +acp_/);
    const path = served.folder.path("secret");
    const kept = await ok("keys", "create", "kept", "--role", "auditor", "--secret-file", path, "--json");
    expect(kept.json()).not.to.have.property("secret");
    expect((await stat(path)).mode & 0o777).to.equal(0o600);
    const secret = (await readFile(path, "utf8")).trim();
    expect(kept.stdout + kept.stderr).not.to.include(secret);
    const listed = await agentctl(["agents", "list", "--url", served.http, "--key-file", path]);
    expect(listed.code, listed.stderr).to.equal(0);
    const taken = await served.agentctl("keys", "create", "third", "--role", "auditor", "--secret-file", path);
    expect([taken.code, /cannot be created \(EEXIST\)/.test(taken.stderr)]).to.deep.equal([2, true]);
    expect((await ok("keys", "list")).stdout).not.to.include("third");
  });

  it("takes members of a request from a file or standard input, and asks before what cannot be taken back.", async () => {
    const file = await served.folder.file("tool.yaml", "name: ledger.read\ninput_schema: {type: object}\n");
    await ok("tools", "create", "--file", file);
    expect((await ok("tools", "show", "ledger.read")).stdout).to.include("ledger.read");
    const env = { AGENTCTL_URL: served.http, AGENTCTL_KEY: served.adminKey };
    const body = JSON.stringify({ agent_id: agentId, purpose: "audit" });
    const piped = await agentctl(["sessions", "create", "--file", "-", "--json"], env, undefined, false, undefined, {
      read: () => body,
    });
    expect(piped.code, piped.stderr).to.equal(0);
    const { session_id: id } = piped.json().session as { session_id: string };
    const refused = await served.agentctl("sessions", "end", id);
    expect(refused.code).to.equal(2);
    expect(refused.stderr).to.include("pass --yes");
    await ok("sessions", "end", id, "--yes");
    const secret = await served.folder.file("bad.yaml", 'token: "s3cret');
    const broken = await served.agentctl("agents", "create", "x", "--file", secret);
    expect(broken.code).to.equal(2);
    expect(broken.stdout + broken.stderr).not.to.include("s3cret");
  });

  it("says on standard error what the service refused, with the field, and ends with 1.", async () => {
    const wrong = await served.agentctl("keys", "create", "bad", "--role", "pope");
    expect([wrong.code, wrong.stdout]).to.deep.equal([1, ""]);
    expect(wrong.stderr)
      .to.match(/^agentctl: .* 400: /)
      .and.include("role");
    const json = await served.agentctl("agents", "show", "agt_unknown", "--json");
    expect([json.code, json.stdout]).to.deep.equal([1, ""]);
    const { error } = JSON.parse(json.stderr) as { error: object };
    expect(error).to.include({ status: 404, reason: "AGENT_NOT_FOUND" });
    const away = await agentctl(["agents", "list", "--url", "http://127.0.0.1:1"], { AGENTCTL_KEY: "k" });
    expect(away.code).to.equal(1);
    expect(away.stderr).to.include("cannot be reached");
  });

  it("never writes control characters of stored names to the terminal.", async () => {
    const name = "\u001b]0;owned\u0007\u001b[2J\u009b31m\u202egnp";
    const created = (await ok("keys", "create", "victim", "--role", "auditor", "--json")).json();
    const { key_id: id } = created.key as { key_id: string };
    await withClient(served.database.url, (client) =>
      client.query("UPDATE api_key SET name = $1 WHERE key_id = $2", [name, id]),
    );
    const table = await ok("keys", "list");
    const json = await ok("keys", "list", "--json");
    const ended = await ok("keys", "revoke", id, "--yes");
    for (const { stdout } of [table, json, ended]) {
      expect(stdout).to.include("owned");
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be written
      expect(stdout).not.to.match(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
    }
    const { keys } = json.json() as { keys: { name: string }[] };
    expect(keys.map((each) => each.name)).to.include(name);
  });
});
