import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { agentctl } from "../harness.ts";
import { type Served, startServed } from "../served.ts";

const at = (name: string): string => fileURLToPath(new URL(`../../testdata/replay/${name}`, import.meta.url));
const RULES = ["--pack", at("pack"), "--tools", at("tools.yaml")];

describe("agentctl replay", () => {
  let served: Served;

  before(async () => {
    served = await startServed();
  });

  after(() => served.stop());

  const jsonOf = (text: string): Record<string, unknown> => JSON.parse(text) as Record<string, unknown>;

  it("tells what would have been asked about in episodes of one line each, and ends with 1 for an attack that passes.", async () => {
    const { code, stdout } = await served.agentctl("replay", at("jsonl"));
    expect(code).to.equal(1);
    const lines = stdout.split("\n");
    expect(lines[0]).to.equal("2 episodes, 4 calls: 4 allowed, 0 asked about, 0 blocked");
    expect(lines[3]).to.match(
      /^all {7}1 of 1 {10}100\.0 % \(20\.7 to 100\.0\) {2}1 {7}0\.00 {7}0 {4}1 {12}100\.0 % \(20\.7 to 100\.0\)$/,
    );
    expect(lines).to.include("1 attacks that would have passed:");
    expect(lines).to.include("  invoice-2, step 2");
    expect(lines.at(-2)).to.match(/^digest [0-9a-f]{64}$/);
  });

  it("finds out what mandates in files would do about it, without putting them in force.", async () => {
    const pack = await served.folder.file(
      "pack.yaml",
      "name: no money\nrules:\n  - { type: action, decision: block, conditions: { match_action_types: [send_money] } }\n",
    );
    const run = await served.agentctl("replay", at("jsonl"), "--pack", pack);
    expect([run.code, run.stderr]).to.deep.equal([0, ""]);
    expect(run.stdout.split("\n")[0]).to.equal("2 episodes, 4 calls: 3 allowed, 0 asked about, 1 blocked");
    expect(run.stdout).to.match(/\nno money {2}rules\[0\] {2}send_money {2}0 {6}1 {8}1\n/);
    expect((await served.agentctl("replay", at("jsonl"))).code).to.equal(1);
  });

  it("measures runs of a benchmark by suite and pipeline, with labels from a file.", async () => {
    const argv = ["replay", at("agentdyn"), "--format", "agentdyn", ...RULES, "--json"];
    const { code, stdout } = await served.agentctl(...argv, "--labels", at("labels.yaml"));
    expect(code).to.equal(0);
    const report = jsonOf(stdout);
    expect(report).to.deep.include({ episodes: 2, calls: 3, asked: 1, blocked: 0, missed: [], unlabelled: [] });
    expect((report.groups as readonly { readonly name: string }[]).map(({ name }) => name)).to.deep.equal([
      "harbour",
      "model-one",
    ]);
    expect(jsonOf((await served.agentctl(...argv, "--labels", at("labels.yaml"))).stdout)).to.deep.equal(report);
  });

  it("leaves out the other half of the tasks, and other attacks.", async () => {
    const run = async (...argv: readonly string[]): Promise<unknown> => {
      const { stdout } = await served.agentctl("replay", at("agentdyn"), "--format", "agentdyn", "--json", ...argv);
      const { episodes, error } = jsonOf(stdout);
      return episodes ?? error;
    };
    // SHA-256 of `harbour/user_task_3` begins with 0xb2.
    expect(await run("--half", "even")).to.equal(2);
    expect(await run("--half", "odd")).to.equal("there is no episode to replay");
    expect(await run("--attack", "direct")).to.equal(1);
  });

  it("reads transcripts, and writes the episodes of any format as lines, which replay alike.", async () => {
    const out = served.folder.path("episodes.jsonl");
    const written = await served.agentctl("replay", at("claude-code"), "--format", "claude-code", "--out", out);
    expect(written.stdout).to.equal(`wrote 2 episodes to ${out}\n`);
    expect(readFileSync(out, "utf8").split("\n")).to.have.length(3);
    const [first, again] = [
      await served.agentctl("replay", at("claude-code"), "--format", "claude-code", "--json"),
      await served.agentctl("replay", out, "--json"),
    ];
    expect(jsonOf(again.stdout).digest).to.equal(jsonOf(first.stdout).digest);
    expect(jsonOf(first.stdout)).to.include({ episodes: 2, calls: 6 });
  });

  it("does not overwrite a file, not even the recording itself, and leaves no file that is not complete.", async () => {
    const recording = await served.folder.file("self.jsonl", '{"id": "a", "steps": []}\n');
    const run = await served.agentctl("replay", recording, "--out", recording);
    expect(run).to.include({ code: 2, stdout: "" });
    expect(run.stderr).to.include("self.jsonl exists: name another file, or move it away");
    expect(readFileSync(recording, "utf8")).to.equal('{"id": "a", "steps": []}\n');
    const bad = await served.folder.file("bad.jsonl", '{"id": "a", "steps": []}\n{\n');
    const out = served.folder.path("new.jsonl");
    expect((await served.agentctl("replay", bad, "--out", out)).code).to.equal(2);
    expect(existsSync(out)).to.equal(false);
  });

  it("names the recording that the service refuses.", async () => {
    const episode = (id: string, ...times: readonly string[]): string =>
      `${JSON.stringify({ id, steps: times.map((at) => ({ tool: "t", at })) })}\n`;
    const file = await served.folder.file(
      "back.jsonl",
      episode("fine") + episode("back", "2026-03-02T09:00:00Z", "2026-03-02T08:00:00Z"),
    );
    const { code, stderr } = await served.agentctl("replay", file);
    expect(code).to.equal(2);
    expect(stderr).to.match(/back\.jsonl: episode `back`: .* with 400: .*`steps\[1\]\.at`/);
  });

  it("takes steps that no service would, such as a call of a tool that a model invented.", async () => {
    const steps = [{ tool: "<no such>", arguments: { text: "\0" }, result: "\0" }, { tool: "x".repeat(600) }];
    const file = await served.folder.file("odd.jsonl", JSON.stringify({ id: "odd", steps }));
    const { code, stdout } = await served.agentctl("replay", file);
    expect([code, stdout.split("\n")[0]]).to.deep.equal([
      0,
      "1 episodes, 2 calls: 2 allowed, 0 asked about, 0 blocked",
    ]);
  });

  it("refuses an episode whose plan would have more steps than a plan may have.", async () => {
    const names = Array.from({ length: 60 }, (_, index) => `tool_${index}`);
    const tools = names.map((name) => `  ${name}: { effect: read }\n`).join("");
    const plans = await served.folder.file("plans.yaml", `tools:\n${tools}`);
    const steps = names.map((tool) => ({ tool }));
    const file = await served.folder.file("many.jsonl", JSON.stringify({ id: "many", prompt: "go", steps }));
    const { code, stderr } = await served.agentctl("replay", file, "--plans", plans);
    expect(code).to.equal(2);
    expect(stderr).to.include("many.jsonl: episode `many` calls 60 tools of its plan; a plan has at most 50 steps");
  });

  const FAULTS: readonly (readonly [argv: readonly string[], message: string])[] = [
    [[], "expected <path> [path…] after `replay`"],
    [[at("jsonl"), "--format", "__proto__"], "--format must be `jsonl`, `claude-code` or `agentdyn`"],
    [[at("jsonl"), "--labels", at("labels.yaml")], "--labels, --attack and --half are for `--format agentdyn`"],
    [[at("agentdyn"), "--format", "agentdyn", "--half", "both"], "--half must be `even` or `odd`"],
    [[at("jsonl"), "--escalated", "maybe"], "--escalated must be `run` or `skip`"],
    [[at("jsonl"), "--tools", at("labels.yaml")], "labels.yaml must be a list of tools"],
    [[at("jsonl"), "--pack", at("no-such")], "no-such cannot be read: ENOENT"],
    [[at("jsonl"), "--pack", at("labels.yaml")], "answered /v1/enforce/replay with 400"],
    [[at("jsonl"), "--agent", "agt_none"], "answered /v1/enforce/replay with 404"],
    [[at("python-literals.json"), "--format", "agentdyn"], "python-literals.json: it must be an object"],
  ];
  for (const [argv, message] of FAULTS) {
    it(`says what is wrong: ${message}.`, async () => {
      const { code, stderr } = await served.agentctl("replay", ...argv);
      expect(code).to.equal(2);
      expect(stderr).to.include(message);
    });
  }

  it("tells the status of a replay that fails after it began.", async () => {
    const server = createServer((_request, response) => {
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      response.end(
        `${JSON.stringify({ ok: false, error: { code: 404, message: "no agent `agt_none`", details: [] } })}\n`,
      );
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    try {
      const { port } = server.address() as AddressInfo;
      const env = { AGENTCTL_URL: `http://127.0.0.1:${port}`, AGENTCTL_KEY: "a-key" };
      const { code, stderr } = await agentctl(["replay", at("jsonl")], env);
      expect(code).to.equal(2);
      expect(stderr).to.include("answered /v1/enforce/replay with 404: no agent `agt_none`");
    } finally {
      server.close();
    }
  });
});
