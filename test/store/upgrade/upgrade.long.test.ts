import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { MIGRATIONS } from "../../../src/store/migrations.ts";
import { agentctl, createFolder, type Folder } from "../../cli/harness.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../../support/database.ts";
import { type ServedHere, serveHere } from "../../support/served-here.ts";
import { FIXTURES, type Kept, SECRETS } from "./fixtures.ts";

for (const version of readdirSync(FIXTURES)) {
  describe(`the database of version ${version}`, () => {
    const kept = JSON.parse(readFileSync(join(FIXTURES, version, "kept.json"), "utf8")) as Kept;
    let database: TestDatabase;
    let service: ServedHere;
    let folder: Folder;
    before(async () => {
      folder = await createFolder();
      // Empty: what stands in the fixture is all that there was.
      database = await createTestDatabase([]);
      await withClient(database.ownerUrl, async (client) => {
        await client.query("drop schema public cascade; create schema public");
        await client.query(readFileSync(join(FIXTURES, version, "database.sql"), "utf8"));
      });
      service = await serveHere({ databaseUrl: database.ownerUrl, env: SECRETS });
    });
    after(async () => {
      await service?.stop();
      await folder?.remove();
      await database?.drop();
    });
    const env = () => ({ AGENTCTL_URL: service.http, AGENTCTL_KEY: SECRETS.ACP_ADMIN_KEY });

    it("gets every migration of this version, once.", async () => {
      const { rows } = await withClient(database.ownerUrl, (client) =>
        client.query("select name from schema_migration"),
      );
      expect(rows.map(({ name }) => name as string).sort()).to.deep.equal(MIGRATIONS.map(({ name }) => name).sort());
    });

    it("keeps its decisions readable, with their receipts.", async () => {
      expect(kept.decisions.length).to.be.above(5);
      for (const { decision_id, decision } of kept.decisions) {
        const shown = await agentctl(["decisions", "show", decision_id, "--json"], env());
        expect(shown.code, shown.stderr).to.equal(0);
        expect(shown.json()).to.have.nested.property("decision.decision", decision);
      }
    });

    it("has a log that verifies, contains the checkpoint of that time, and goes on.", async () => {
      const checkpoint = await folder.file("checkpoint", kept.checkpoint);
      const verify = async (): Promise<void> => {
        const { code, stdout, stderr } = await agentctl(["vault", "verify", "--checkpoint", checkpoint], env());
        expect(code, stdout + stderr).to.equal(0);
      };
      await verify();
      const agents = (await agentctl(["agents", "list", "--search", "clerk", "--json"], env())).json();
      const [agent] = agents.agents as { agent_id: string }[];
      const headers = { "x-api-key": SECRETS.ACP_ADMIN_KEY, "content-type": "application/json" };
      const body = JSON.stringify({ agent_id: agent?.agent_id, action_type: "delete" });
      const response = await fetch(`${service.http}/v1/enforce/intercept`, { method: "POST", headers, body });
      expect(await response.json()).to.include({ decision: "block" });
      await verify();
    });

    it("keeps encrypted values and authority.", async () => {
      expect((await agentctl(["sessions", "list"], env())).stdout).to.include("audit");
      const headers = { "x-api-key": SECRETS.ACP_ADMIN_KEY, "content-type": "application/json" };
      const body = JSON.stringify({ text: "mail Wilhelmina Ockerbloom" });
      const response = await fetch(`${service.http}/api/redact/default/scrub`, { method: "POST", headers, body });
      expect(await response.text()).not.to.include("Ockerbloom");
    });
  });
}
