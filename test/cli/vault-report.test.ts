import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { csvRows } from "../../src/cli/csv.ts";
import { evidenceCells, reportRow, reportRowOf } from "../../src/explain/evidence.ts";
import { agentctl } from "./harness.ts";
import { type Served, startServed } from "./served.ts";

const run = promisify(execFile);
const PYTHON_VERIFIER = join(import.meta.dirname, "..", "vault", "verify_report.py");
const HOSTILE = '=<img src=x onerror="alert(1)">&';

describe("agentctl vault report", () => {
  let served: Served;
  let agentId: string;
  let otherId: string;
  let mandateId: string;
  let folder: string;
  let reports = 0;

  const report = async (...options: readonly string[]) => {
    const out = served.folder.path(`report-${reports++}`);
    return { out, ...(await served.agentctl("vault", "report", "--out", out, ...options)) };
  };
  const rowsOf = async (out: string): Promise<Record<string, string>[]> => {
    const [names = [], ...rows] = csvRows(await readFile(join(out, "decisions.csv"), "utf8"));
    return rows.map((cells) => Object.fromEntries(cells.map((cell, index) => [names[index], cell])));
  };
  const verify = (out: string) => agentctl(["vault", "verify", out, "--json"]);

  before(async () => {
    served = await startServed();
    [agentId, otherId] = [await served.agent(), await served.agent()];
    const rule = { type: "action", decision: "block", conditions: { match_action_types: ["delete*"] } };
    const made = await served.rest("POST /v1/enforce/mandates", { name: HOSTILE, rules: [rule] });
    mandateId = (made.mandate as unknown as { mandate_id: string }).mandate_id;
    await served.intercept(agentId, { action_content: 'one,\r\n"two"' });
    await served.intercept(agentId, { action_type: "delete.all" });
    await served.intercept(otherId);
    await served.intercept(otherId);
    const written = await report();
    expect(written.code, written.stderr).to.equal(0);
    folder = written.out;
  });
  after(() => served?.stop());

  it("writes each decision, oldest first, with what its entry says.", async () => {
    const rows = await rowsOf(folder);
    expect(rows.map((row) => row.decision)).to.deep.equal(["allow", "block", "allow", "allow"]);
    for (const row of rows) {
      const entry = JSON.parse(row.entry ?? "") as { decision_id: string; seq: number };
      expect({ id: row.decision_id, index: row.index }).to.deep.equal({
        id: entry.decision_id,
        index: String(entry.seq),
      });
    }
    expect(rows[1]).to.include({ mandates: mandateId, agent_id: agentId, action_type: "delete.all" });
    expect(JSON.parse(rows[0]?.entry ?? "").action.action_content).to.equal('one,\r\n"two"');
  });

  it("verifies offline, by agentctl with and without a pinned key, and by Python's own library.", async () => {
    expect((await verify(folder)).json()).to.include({ verified: true, kind: "report", decisions: 4 });
    const pinned = await agentctl(["vault", "verify", folder, "--jwks", join(folder, "keys.json"), "--json"]);
    expect(pinned.json()).to.include({ verified: true, key_source: "pinned" });
    expect((await run("python3", [PYTHON_VERIFIER, folder])).stdout).to.equal("verified 4\n");
  });

  it("narrows to an agent, a mandate and a period.", async () => {
    const counts = async (...options: readonly string[]) => (await rowsOf((await report(...options)).out)).length;
    expect(await counts("--agent", otherId)).to.equal(2);
    expect(await counts("--mandate", mandateId)).to.equal(1);
    expect(await counts("--until", "2026-01-01T00:00:00Z")).to.equal(0);
    expect(await counts("--since", "1h", "--agent", agentId)).to.equal(2);
  });

  it("lets no cell begin a formula, and no text become markup or turn its direction.", async () => {
    const rows = await rowsOf(folder);
    expect(rows[1]?.policy_name).to.equal(`'${HOSTILE}`);
    for (const row of rows) for (const cell of Object.values(row)) expect(cell).not.to.match(/^[=+\-@\t\r]/);
    expect(await readFile(join(folder, "report.html"), "utf8")).not.to.match(/<img|<script/);
    const parsed = { action: { agent_name: "\u202eevil", action_type: "@SUM(1)", tool: HOSTILE }, decision: "allow" };
    const row = { index: 0, body: "{}", parsed, leafHash: "00", auditPath: [] };
    expect(evidenceCells(row)).to.include.members([`'${HOSTILE}`, "'@SUM(1)"]);
    const shown =
      "\\u{202e}evil` () asked to do `@SUM(1)` with the tool `=&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;`";
    expect(reportRow(reportRowOf(row))).to.include(shown);
  });

  const TAMPERED: readonly [string, (text: string) => string, string][] = [
    ["a cell that its entry contradicts", (text) => text.replace(",block,", ",allow,"), "contradiction"],
    ["an entry that was changed", (text) => text.replace('""decision"":""block""', '""decision"":""allow""'), "proof"],
    ["a row of another place", (text) => text.replace(/^(\d+),/m, (_, index) => `${Number(index) + 1},`), "proof"],
    ["an audit path without hashes", (text) => text.replace(/,[0-9a-f]{64} [0-9a-f]{64}/, ",none"), "malformed"],
    ["a cell too many", (text) => text.trimEnd().concat(",more\r\n"), "contradiction"],
  ];
  for (const [what, change, fault] of TAMPERED) {
    it(`refuses ${what}.`, async () => {
      const { out } = await report();
      const path = join(out, "decisions.csv");
      const text = await readFile(path, "utf8");
      const changed = change(text);
      expect(changed).not.to.equal(text);
      await writeFile(path, changed);
      const refused = await verify(out);
      expect(refused.code).to.equal(1);
      expect(refused.json()).to.include({ verified: false, fault });
    });
  }

  it("refuses a checkpoint that another key signed, and files that are no report.", async () => {
    const { out } = await report();
    await writeFile(join(out, "keys.json"), '{"keys": []}');
    expect((await verify(out)).code).to.equal(1);
    await writeFile(join(folder, "..", "report-x.csv"), "a,b\n");
    const { out: other } = await report();
    await writeFile(join(other, "decisions.csv"), "a,b\n1,2\n");
    const refused = await agentctl(["vault", "verify", other]);
    expect(refused.code).to.equal(2);
    expect(refused.stderr).to.include("is no table of evidence");
  });

  it("overwrites nothing, and needs a folder.", async () => {
    const again = await served.agentctl("vault", "report", "--out", folder);
    expect(again.code).to.equal(2);
    expect(again.stderr).to.include("is not empty; name a new folder");
    const without = await served.agentctl("vault", "report");
    expect(without.stderr).to.include("--out: name a new folder");
  });
});
