import { execFile } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, stat } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { openBundle } from "../../src/cli/bundle.ts";
import { reasonsIn, receiptSentences } from "../../src/explain/receipt.ts";
import { plainText } from "../../src/explain/sentence.ts";
import { agentctl } from "./harness.ts";
import { type Served, startServed } from "./served.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "..", "..");
const AGENTCTL = join(ROOT, "src", "cli", "agentctl.ts");
const PYTHON_VERIFIER = join(ROOT, "test", "vault", "verify_bundle.py");

/** Has a server listen; gives its address. */
async function addressOf(server: Server): Promise<string> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Item {
  readonly index: number;
  readonly by: string;
  readonly text: string;
}

interface StoryJson {
  readonly before: readonly Item[];
  readonly after: readonly Item[];
  readonly unexplained: readonly string[];
}

describe("agentctl vault", () => {
  let served: Served;
  let agentId: string;

  before(async () => {
    served = await startServed();
    agentId = await served.agent();
  });
  after(() => served?.stop());

  /** Lets actions be decided until the signal comes; gives how many were. */
  async function keepDeciding(signal: AbortSignal): Promise<number> {
    let count = 0;
    for (; !signal.aborted; count++) await served.intercept(agentId, { action_content: `action ${count} – „€“` });
    return count;
  }

  it("verifies and exports the log while others append to it.", async () => {
    const stop = new AbortController();
    const callers = Array.from({ length: 4 }, () => keepDeciding(stop.signal));
    for (let round = 0; round < 5; round++) {
      const out = served.folder.path(`log-${round}`);
      const [live, written] = await Promise.all([
        served.agentctl("vault", "verify", "--json"),
        served.agentctl("vault", "export", "--out", out),
      ]);
      expect(live.code, live.stdout).to.equal(0);
      expect(written.code, written.stderr).to.equal(0);
      const offline = await agentctl(["vault", "verify", out, "--json"]);
      expect(offline.json(), offline.stdout).to.include({ verified: true, kind: "log" });
    }
    stop.abort();
    const counts = await Promise.all(callers);
    expect(Math.min(...counts)).to.be.greaterThan(0);
    const all = (await served.agentctl("vault", "verify", "--json")).json();
    expect(all.tree_size).to.be.greaterThan(counts.reduce((sum, count) => sum + count));
  });

  it("verifies a log in which approvals were asked for again, withdrawn, used and replaced.", async () => {
    const rule = { type: "action", decision: "escalate", conditions: { match_action_types: ["pay.*"] } };
    await served.rest("POST /v1/enforce/mandates", { name: "asked again", rules: [rule] });
    const pay = (more = {}) => served.intercept(agentId, { action_type: "pay.now", ...more });
    const { escalation_id } = await pay();
    for (let count = 0; count < 3; count++) await pay();
    await served.rest(`POST /v1/enforce/escalations/${escalation_id}/withdraw`);
    await served.resolve(escalation_id, "approved");
    const { decision_id: used } = await pay({ escalation_id });
    const { decision_id: again, escalation_id: next } = await pay({ escalation_id });
    await served.rest(`POST /v1/enforce/escalations/${next}/withdraw`);
    const { code, stdout } = await served.agentctl("vault", "verify", "--json");
    expect(code, stdout).to.equal(0);
    const story = (await served.agentctl("vault", "explain", used)).stdout;
    expect(story).to.include(`asked for ${escalation_id} again`);
    expect(story).to.include(`a request for escalation ${escalation_id} was withdrawn, which leaves 3`);
    const ended = (await served.agentctl("vault", "explain", again)).stdout;
    expect(ended).to.include(`escalation ${next} rejected because every request was withdrawn`);
  });

  it("explains and proves decisions by expressions, with and without a result.", async () => {
    const when = 'args.amount > 500 && args.note != "a – „€“"';
    const rules = [{ type: "action", decision: "block", conditions: { match_action_types: ["cable.*"] }, when }];
    await served.rest("POST /v1/enforce/mandates", { name: "wires", rules });
    await served.rest("PUT /v1/enforce/lists/payees", { kind: "text", values: ["ACME"] });
    const listed = {
      type: "action",
      decision: "escalate",
      when: 'action.type == "gift" && !in_list(args.to, "payees")',
    };
    await served.rest("POST /v1/enforce/mandates", { name: "gifts", rules: [listed] });
    const attempts = [
      {
        action: { action_type: "cable.out", metadata: { arguments: { amount: 900, note: "b" } } },
        decision: "blocked",
      },
      { action: { action_type: "cable.out", metadata: { arguments: { amount: 900 } } }, decision: "blocked" },
      { action: { action_type: "gift", metadata: { arguments: { to: "Globex" } } }, decision: "escalated to a person" },
    ];
    const told = [
      `\`${when}\` is true`,
      `\`${when}\` has no result, so it counts as true: \`args.note\` is missing`,
      '`action.type == "gift" && !in_list(args.to, "payees")` is true',
    ];
    for (const [index, { action, decision }] of attempts.entries()) {
      const { decision_id: id } = await served.intercept(agentId, action);
      const path = served.folder.path(`when-${index}`);
      expect((await served.agentctl("vault", "prove", id, "--out", path)).code).to.equal(0);
      expect((await agentctl(["vault", "verify", path])).code).to.equal(0);
      const bundle = await openBundle(path);
      const body: unknown = bundle.kind === "decision" ? JSON.parse(bundle.proof.body) : undefined;
      const name = index === 2 ? "gifts" : "wires";
      const [asked, decided] = receiptSentences(body).map(plainText);
      expect(asked).to.contain(action.action_type);
      expect(decided).to.match(
        new RegExp(`^It was ${decision} by a rule of the mandate \`${name}\` \\(mnd_\\w+\\)\\.$`),
      );
      const reasons = reasonsIn(body);
      const codes = index === 2 ? ["WHEN_HELD"] : ["ACTION_MATCHED", "WHEN_HELD"];
      expect(reasons.map(({ code }) => code)).to.deep.equal(codes);
      const reason = reasons.at(-1);
      expect(reason).to.include({ code: "WHEN_HELD", mandateName: name, rule: "rules[0].when", message: told[index] });
      expect(reason?.argument).to.equal(index === 1 ? "note" : "");
      const story = await served.agentctl("vault", "explain", id);
      expect(story.code, story.stdout).to.equal(0);
      expect(story.stdout).to.contain(name);
    }
    const log = served.folder.path("when-log");
    expect((await served.agentctl("vault", "export", "--out", log)).code).to.equal(0);
    expect((await agentctl(["vault", "verify", log, "--json"])).json()).to.include({ verified: true });
    const python = await run("python3", [PYTHON_VERIFIER, log]);
    expect(python.stdout).to.match(/^verified \d+\n$/);
  });

  it("keeps a checkpoint that later runs hold the log to.", async () => {
    const kept = served.folder.path("kept");
    await served.agentctl("vault", "verify", "--keep-checkpoint", kept);
    await served.intercept(agentId);
    const { code, stdout } = await served.agentctl("vault", "verify", "--checkpoint", kept);
    expect(code, stdout).to.equal(0);
    expect(stdout).to.include("it contains the earlier checkpoint");
  });

  it("proves a decision to whoever has the bundle and no service, in Python too.", async () => {
    const { decision_id: id } = await served.intercept(agentId);
    const [decision, log] = [served.folder.path("decision"), served.folder.path("log")];
    expect((await served.agentctl("vault", "prove", id, "--out", decision)).code).to.equal(0);
    expect((await served.agentctl("vault", "export", "--out", log)).code).to.equal(0);
    const { code, stdout } = await agentctl(["vault", "verify", decision]);
    expect(code, stdout).to.equal(0);
    expect(stdout).to.include(id).and.to.include("a key that came from the bundle itself");
    const python = await run("python3", [PYTHON_VERIFIER, decision, log]);
    expect(python.stdout).to.match(/^verified 1\nverified \d+\n$/);
  });

  it("prints bundles when no file is named, and what it did beside them.", async () => {
    const { decision_id: id } = await served.intercept(agentId);
    const { stdout, stderr } = await served.agentctl("vault", "prove", id);
    expect(JSON.parse(stdout)).to.include({ format: "agent-control-plane.decision/1" });
    expect(stderr).to.include(`wrote decision ${id}`);
  });

  it("trusts the keys that are pinned, and no others.", async () => {
    const { decision_id: id } = await served.intercept(agentId);
    const bundle = served.folder.path("pinned");
    await served.agentctl("vault", "prove", id, "--out", bundle);
    const keys = await (await fetch(`${served.http}/.well-known/jwks.json`)).text();
    const jwks = await served.folder.file("keys.json", keys);
    const pinned = await agentctl(["vault", "verify", bundle, "--jwks", jwks, "--json"]);
    expect(pinned.json(), pinned.stdout).to.include({ verified: true, key_source: "pinned" });
    const { stdout: pem } = await run("openssl", ["ecparam", "-name", "prime256v1", "-genkey", "-noout"]);
    const secret = await served.folder.file("other-secret.pem", pem);
    const other = served.folder.path("other.pem");
    await run("openssl", ["ec", "-in", secret, "-pubout", "-out", other]);
    const refused = await agentctl(["vault", "verify", bundle, "--public-key", other, "--json"]);
    expect(refused.code).to.equal(1);
    expect(refused.json()).to.include({ verified: false, fault: "signature" });
    expect((await agentctl(["vault", "verify", bundle, "--public-key", secret])).code).to.equal(2);
  });

  it("shows the key's fingerprint as openssl computes it.", async () => {
    const { json } = await served.agentctl("vault", "verify", "--json");
    const log = served.folder.path("fingerprint");
    await served.agentctl("vault", "export", "--out", log);
    const [head = ""] = (await readFile(log, "utf8")).split("\n");
    const pem = await served.folder.file(
      "own.pem",
      (JSON.parse(head) as { public_keys: string[] }).public_keys[0] ?? "",
    );
    const der = served.folder.path("own.der");
    await run("openssl", ["pkey", "-pubin", "-in", pem, "-outform", "DER", "-out", der]);
    const { stdout } = await run("openssl", ["dgst", "-sha256", "-r", der]);
    expect(json().signed_by).to.equal(`sha256:${stdout.split(" ")[0]}`);
  });

  describe("explain", () => {
    let decisionId: string;
    let ids: Record<"session" | "department" | "mandate" | "escalation" | "revocation" | "agent", string>;

    before("an approved wire transfer of an agent that is revoked afterwards", async () => {
      const { rest } = served;
      const agent = await served.agent("wirer");
      const of = async (request: string, name: string, body: object) =>
        (await rest(request, body))[name] as unknown as Record<string, string>;
      const department =
        (await of("POST /v1/enforce/departments", "department", { name: "finance" })).department_id ?? "";
      await rest(`PUT /v1/enforce/departments/${department}/members/${agent}`);
      await rest("POST /v1/enforce/tools", { name: "wire", input_schema: { type: "object" } });
      const rule = { type: "action", decision: "escalate", conditions: { match_action_types: ["wire.*"] } };
      const draft = { name: "wires need a person", rules: [rule], scope: "department", department_id: department };
      const mandate = (await of("POST /v1/enforce/mandates", "mandate", draft)).mandate_id ?? "";
      await rest(`PUT /v1/enforce/mandates/${mandate}`, { ...draft, name: "wires need two eyes" });
      const session = (await of("POST /v1/enforce/sessions", "session", { agent_id: agent })).session_id ?? "";
      const wire = { action_type: "wire.send", action_content: "1 EUR", session_id: session, tool: "wire" };
      const { escalation_id: escalation } = await served.intercept(agent, wire);
      const resolve = `POST /api/control/enforcement/escalations/${escalation}/resolve`;
      await rest(resolve, { resolution: "approved", note: "seen \u001b[2J" });
      decisionId = (await served.intercept(agent, { ...wire, escalation_id: escalation })).decision_id;
      // What changes afterwards says nothing of the decision.
      await rest(`PUT /v1/enforce/mandates/${mandate}`, { ...draft, name: "wires need three eyes" });
      await rest(`DELETE /v1/enforce/departments/${department}/members/${agent}`);
      const revocation =
        (await rest(`POST /v1/enforce/agents/${agent}/revoke`, { reason: "left" })).revocation_id ?? "";
      ids = { session, department, mandate, escalation, revocation, agent };
    });

    const wanted = () => [
      `agent ${ids.agent} (\`wirer\`) registered`,
      `agent ${ids.agent} joined department ${ids.department}`,
      "tool `wire` version 1 registered",
      `mandate ${ids.mandate} (\`wires need two eyes\`) version 2 published`,
      `session ${ids.session} of ${ids.agent}`,
      `escalated the action as ${ids.escalation}`,
      `(escalate) left agent ${ids.agent} with trust 49.5`,
      `escalation ${ids.escalation} approved with the note`,
    ];

    it("tells by index, time and key what a decision rests on, and what became of it.", async () => {
      const { code, json, stdout } = await served.agentctl("vault", "explain", decisionId, "--json");
      expect(code, stdout).to.equal(0);
      const { before, after, unexplained } = json() as unknown as StoryJson;
      const told = (text: string) => before.filter((item) => item.text.includes(text));
      for (const text of wanted()) expect(told(text), text).to.have.length(1);
      expect(before.filter(({ text }) => text.startsWith("mandate"))).to.have.length(1);
      expect(before.map(({ index }) => index)).to.deep.equal(before.map(({ index }) => index).sort((a, b) => a - b));
      expect(before.every(({ by }) => by.startsWith("key_") || by === "system")).to.equal(true);
      const named = (await served.agentctl("vault", "explain", decisionId)).stdout;
      expect(named).to.match(/, by key_[a-z2-7]{26} \(`first admin`\)$/m);
      expect(after.map(({ text }) => text)).to.have.length(1);
      expect(after[0]?.text)
        .to.include("revoked because `left`")
        .and.to.include(ids.revocation)
        .and.to.include(ids.session);
      expect(unexplained).to.deep.equal([]);
    });

    it("tells the same from a bundle, and nothing that a terminal would obey.", async () => {
      const log = served.folder.path("explained");
      await served.agentctl("vault", "export", "--out", log);
      const { code, stdout } = await agentctl(["vault", "explain", decisionId, "--bundle", log]);
      expect(code, stdout).to.equal(0);
      expect(stdout).to.include(`decision ${decisionId}: allow by approved`);
      for (const text of wanted()) expect(stdout).to.include(text);
      expect(stdout).to.include("seen \\u001b[2J").and.not.include("\u001b");
    });

    it("tells nothing from a log that does not verify.", async () => {
      const log = served.folder.path("explained");
      const text = (await readFile(log, "utf8")).replace("wirer", "wired");
      const changed = await served.folder.file("explained-changed", text);
      const { code, stdout } = await agentctl(["vault", "explain", decisionId, "--bundle", changed]);
      expect(code).to.equal(1);
      expect(stdout).to.match(/^REFUSED \(leaf_hash\): entry \d+ was changed/);
    });
  });

  describe("as a command", () => {
    it("ends with 0 for what verifies, 1 for what does not and 2 for what it cannot read.", async () => {
      const { decision_id: id } = await served.intercept(agentId);
      const good = served.folder.path("good");
      await served.agentctl("vault", "prove", id, "--out", good);
      const bad = await served.folder.file("bad", (await readFile(good, "utf8")).replace(/"leaf_index":/, "$&1"));
      const codeOf = (path: string) =>
        run(process.execPath, [AGENTCTL, "vault", "verify", path]).then(
          () => 0,
          (error: { code: number }) => error.code,
        );
      expect(await Promise.all([good, bad, served.folder.path("nothing")].map(codeOf))).to.deep.equal([0, 1, 2]);
    });

    const USAGES: readonly { readonly argv: readonly string[]; readonly says: RegExp }[] = [
      { argv: [], says: /no such command/ },
      { argv: ["vault", "burn"], says: /no such command/ },
      { argv: ["vault", "verify"], says: /pass --url or set AGENTCTL_URL/ },
      { argv: ["vault", "verify", "--url", "ftp://host"], says: /--url must have the form/ },
      { argv: ["vault", "verify", "--url", "http://127.0.0.1:1"], says: /set AGENTCTL_KEY or pass --key/ },
      {
        argv: ["vault", "verify", "--key", "s3cret"],
        says: /the key is no argument, .* AGENTCTL_KEY or pass --key-file/,
      },
      { argv: ["vault", "verify", "--burn"], says: /unknown option '--burn'/ },
      { argv: ["vault", "verify", "a", "b"], says: /expected \[bundle\] after `vault verify`/ },
      { argv: ["vault", "prove", "--url", "http://127.0.0.1:1"], says: /expected <decision>/ },
      { argv: ["vault", "verify", join(ROOT, "package.json")], says: /is not a bundle/ },
      {
        argv: ["vault", "verify", ROOT],
        says: /is not a folder of `agentctl vault report`: it has no `decisions.csv`/,
      },
      { argv: ["certificate", "verify", join(ROOT, "package.json")], says: /is not a revocation certificate/ },
    ];
    for (const { argv, says } of USAGES) {
      it(`says what to change after \`agentctl ${argv.map((each) => each.replace(ROOT, "…")).join(" ")}\`.`, async () => {
        const { code, stdout, stderr } = await agentctl(argv);
        expect(code).to.equal(2);
        expect(stderr).to.match(says).and.not.include("s3cret");
        expect(stdout).to.equal("");
      });
    }

    it("says what the service refused, and never the key.", async () => {
      const unknown = await agentctl(["vault", "prove", "dec_unknown", "--url", served.http], {
        AGENTCTL_KEY: served.adminKey,
      });
      expect(unknown.code).to.equal(2);
      expect(unknown.stderr).to.include("404").and.to.include("dec_unknown").and.not.include(served.adminKey);
      const refused = await agentctl(["vault", "export", "--url", served.http], { AGENTCTL_KEY: "acp_wrong" });
      expect(refused.code).to.equal(2);
      expect(refused.stderr).to.include("401").and.not.include("acp_wrong");
    });

    it("does not carry the key to where a redirect leads.", async () => {
      const heard: string[] = [];
      const elsewhere = createServer((request, response) => {
        heard.push(String(request.headers["x-api-key"]));
        response.end("{}");
      });
      const target = await addressOf(elsewhere);
      const redirecting = createServer((_, response) => response.writeHead(307, { location: target }).end());
      const url = await addressOf(redirecting);
      const { code } = await agentctl(["vault", "verify", "--url", url], { AGENTCTL_KEY: "s3cret" });
      expect(code).to.equal(2);
      expect(heard).to.deep.equal([]);
      for (const server of [elsewhere, redirecting]) server.close();
    });

    it("leaves no file behind when it cannot finish one.", async () => {
      const out = served.folder.path("unfinished");
      await served.agentctl("vault", "prove", "dec_unknown", "--out", out);
      expect(await stat(out).catch(({ code }: NodeJS.ErrnoException) => code)).to.equal("ENOENT");
      const names = await readdir(join(out, ".."));
      expect(names.filter((name) => name.startsWith("unfinished"))).to.deep.equal([]);
    });

    it("explains itself on each level.", async () => {
      for (const argv of [["--help"], ["vault", "--help"], ["vault", "verify", "--help"]]) {
        const { code, stdout } = await agentctl(argv);
        expect(code, argv.join(" ")).to.equal(0);
        expect(stdout)
          .to.match(/\bvault .*\bverify/)
          .and.to.include("Exit codes:");
      }
    });
  });
});
