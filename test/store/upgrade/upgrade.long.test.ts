import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { MIGRATIONS } from "../../../src/store/migrations.ts";
import { agentctl, createFolder, type Folder } from "../../cli/harness.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../../support/database.ts";
import { type ServedHere, serveHere } from "../../support/served-here.ts";
import { ANN_NAME, FIXTURES, type Kept, SECRETS } from "./fixtures.ts";

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

    const call = async (method: string, path: string, key: string, body?: object): Promise<Record<string, unknown>> => {
      const headers = { "x-api-key": key, "content-type": "application/json" };
      const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const response = await fetch(service.http + path, init);
      const answer = (await response.json()) as Record<string, unknown>;
      expect(response.ok, JSON.stringify(answer)).to.equal(true);
      return answer;
    };

    it("has the people of that time, whose keys answer and whose answers are found under their names.", async () => {
      const { people } = await call("GET", "/v1/admin/people", SECRETS.ACP_ADMIN_KEY);
      const known = people as { readonly person_id: string; readonly issuer?: string; readonly subject?: string }[];
      expect(known.map(({ issuer, subject }) => `oidc:${issuer}|${subject}`)).to.include(ANN_NAME);
      for (const { person_id } of known) expect(person_id).to.match(/^per_[a-z2-7]{26}$/);
      const { agents } = await call("GET", "/v1/enforce/agents", SECRETS.ACP_ADMIN_KEY);
      const agent = (agents as { readonly agent_id: string; readonly name: string }[]).find(
        ({ name }) => name === "clerk",
      );
      const action = { agent_id: agent?.agent_id, action_type: "wire", action_content: "after the upgrade" };
      const { escalation_id } = await call("POST", "/v1/enforce/intercept", SECRETS.ACP_ADMIN_KEY, action);
      await call("POST", `/v1/enforce/escalations/${escalation_id}/resolve`, kept.annKey, { resolution: "approved" });
      const answered = `/v1/enforce/escalations?resolved_by=${encodeURIComponent(ANN_NAME)}`;
      const { escalations } = await call("GET", answered, SECRETS.ACP_ADMIN_KEY);
      expect(escalations).to.have.nested.property("[0].escalation_id", escalation_id);
      // Those of that time waited too long meanwhile.
      const expired = await call("GET", "/v1/enforce/escalations?resolved_by=expiry", SECRETS.ACP_ADMIN_KEY);
      expect(expired.escalations).to.have.lengthOf.at.least(1);
    });

    it("has mandates without an author, which are restored as versions with one.", async () => {
      const { mandates } = await call("GET", "/v1/enforce/mandates", SECRETS.ACP_ADMIN_KEY);
      type Mandate = { readonly mandate_id: string; readonly created_by?: string | null; readonly rules: object[] };
      const [mandate] = mandates as Mandate[];
      expect(mandate?.created_by ?? null).to.equal(null);
      const path = `/v1/enforce/mandates/${mandate?.mandate_id}`;
      const rules = mandate?.rules.slice(1);
      await call("PUT", path, SECRETS.ACP_ADMIN_KEY, { name: "payments", rules });
      const restored = await call("POST", `${path}:restore`, SECRETS.ACP_ADMIN_KEY, { version: 1 });
      expect(restored).to.have.nested.property("mandate.created_by").that.matches(/^key_/);
    });

    it("tells people of escalations by the settings that it gets.", async () => {
      const { settings } = await call("GET", "/v1/enforce/notification-settings", SECRETS.ACP_ADMIN_KEY);
      expect(settings).to.include({ notify_arguments: false });
      const preferences = { about: "mine", groups: ["money"] };
      await call("PUT", "/v1/enforce/notification-preferences", kept.annKey, { preferences });
      const members = [ANN_NAME];
      await call("PUT", "/v1/enforce/approver-groups/money", SECRETS.ACP_ADMIN_KEY, { members });
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
