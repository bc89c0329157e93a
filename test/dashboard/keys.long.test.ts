import { expect } from "chai";
import type { Page } from "playwright-core";
import { AdminService, OutcomeTracking } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { newPrivateKey } from "../support/harness.ts";
import { startServer } from "../support/server.ts";
import {
  APPEARANCES,
  assertAccessible,
  assertColumns,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

describeInBrowser("the keys and workspaces of the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard();
  });
  after(() => dashboard.close());

  const admin = () => dashboard.service.admin.client(AdminService);
  const open = async (path: string, options = {}): Promise<Page> => {
    const page = await dashboard.open(path, options);
    await page.waitForSelector("[data-screen]");
    return page;
  };
  const opens = async (key: string): Promise<boolean> => {
    const headers = { "x-api-key": key };
    return (await fetch(`${dashboard.service.http}/v1/enforce/agents`, { headers })).status !== 401;
  };
  const fieldOf = (page: Page, name: string) =>
    page.locator(".field", { has: page.locator(`[name=${name}]`) }).locator("[role=alert]");

  it("creates a key, shows its secret once, and revokes it after a confirmation.", async () => {
    const page = await open("/keys");
    await page.click("[data-action=create-key]");
    await page.selectOption("[name=role]", { label: "auditor: reads everything, changes nothing" });
    await page.click("[data-action=submit-key]");
    await fieldOf(page, "name").waitFor();
    await page.fill("[name=name]", "night <b>watch</b>");
    await page.fill("[name=ttl_seconds]", "soon");
    await page.click("[data-action=submit-key]");
    await fieldOf(page, "ttl_seconds").waitFor();
    await page.fill("[name=ttl_seconds]", "7");
    await page.selectOption("[name='ttl_seconds.unit']", { label: "days" });
    await page.click("[data-action=submit-key]");
    const secret = (await page.locator("[data-secret]").textContent()) ?? "";
    expect(await opens(secret)).to.equal(true);
    await page.click("[data-action=stored]");
    const row = page.locator("[data-screen=keys] [data-id]", { hasText: "night <b>watch</b>" });
    await row.getByText("auditor").waitFor();
    await row.getByText("expires in 6 d 23 h").waitFor();
    expect(await page.content()).not.to.contain(secret);
    await row.locator("[data-action=revoke-key]").click();
    await page.click("[data-action=cancel]");
    expect(await opens(secret)).to.equal(true);
    await row.locator("[data-action=revoke-key]").click();
    await page.click("[data-action=confirm]");
    await row.getByText("revoked").waitFor();
    expect(await opens(secret)).to.equal(false);
  });

  it("binds a key of role agent to an agent.", async () => {
    const agentId = await dashboard.service.agent("Bound");
    const page = await open("/keys");
    await page.click("[data-action=create-key]");
    await page.fill("[name=name]", "runtime");
    await page.selectOption("[name=role]", { label: "agent: the program that acts" });
    await page.fill('[name="agent_id.search"]', "Bou");
    await page.locator(`[name=agent_id] option[value=${agentId}]`).waitFor({ state: "attached" });
    await page.selectOption("[name=agent_id]", agentId);
    await page.click("[data-action=submit-key]");
    await page.click("[data-action=stored]");
    await page.locator("[data-id]", { hasText: "runtime" }).getByRole("link", { name: "Bound" }).waitFor();
  });

  it("gives a key an owner, and shows who made it.", async () => {
    const page = await open("/keys");
    await page.click("[data-action=create-key]");
    await page.fill("[name=name]", "approvals");
    await page.fill("[name=owner]", "oidc:ann@example.com");
    await page.click("[data-action=submit-key]");
    await fieldOf(page, "owner").getByText("oidc:{issuer}|{subject}").waitFor();
    await page.fill("[name=owner]", "Ann Lee");
    await page.click("[data-action=submit-key]");
    await page.click("[data-action=stored]");
    const row = page.locator("[data-id]", { hasText: "approvals" });
    await row.getByText("of Ann Lee made by first admin").waitFor();
    const { keys } = await admin().listApiKeys({});
    const maker = keys.find(({ name }) => name === "first admin")?.keyId ?? "";
    await row.locator(`.actor[title="${maker}"]`).waitFor();
    await page.click("[data-action=create-key]");
    await page.locator("datalist option[value='Ann Lee']").waitFor({ state: "attached" });
    await page.click("[data-action=cancel]");
    const revoke = { keyId: keys.find(({ name }) => name === "approvals")?.keyId ?? "" };
    await admin().revokeApiKey(revoke);
  });

  it("shows why the last admin key and the signing key in use stay.", async () => {
    const page = await open("/keys");
    const { keys } = await admin().listApiKeys({});
    const own = keys.find(({ name }) => name === "first admin");
    const row = page.locator(`[data-id=${own?.keyId}]`);
    await row.getByText("you are signed in with it").waitFor();
    await row.locator("[data-action=revoke-key]").click();
    await page.getByText("revoking it signs you out").waitFor();
    await page.click("[data-action=confirm]");
    await page.locator("[role=dialog] .fault").getByText("admin key").waitFor();
    await page.click("[data-action=cancel]");
    expect(await page.locator("[data-action=retire]").isVisible()).to.equal(false);
    await page.click("[data-action=signing-keys]");
    await page.click("[data-action=retire]");
    const confirm = page.locator("[role=dialog] [data-action=confirm]");
    expect(await confirm.isDisabled()).to.equal(true);
    await page.fill("[name=confirm]", await page.locator("[role=dialog] .field strong").innerText());
    await confirm.click();
    await page.locator("[role=dialog] .fault").getByText("ACP_SIGNING_KEY").waitFor();
  });

  it("retires a signing key that its process no longer signs with, when its beginning was typed.", async () => {
    // Another process seals its key in the log and is gone.
    const { database, adminKey } = dashboard.service;
    const signingKey = newPrivateKey().export({ type: "pkcs8", format: "pem" }).toString();
    const env = { ACP_SIGNING_KEY: signingKey, ACP_ADMIN_KEY: adminKey };
    await (await startServer({ databaseUrl: database.url, env })).stop();
    const response = await fetch(`${dashboard.service.http}/.well-known/jwks.json`);
    const [newest] = ((await response.json()) as { readonly keys: readonly { readonly kid: string }[] }).keys;
    const page = await open("/keys");
    const row = page.locator(`[data-id="${newest?.kid}"]`);
    await page.click("[data-action=signing-keys]");
    await row.locator("[data-action=retire]").click();
    await page.fill("[name=confirm]", "another");
    const confirm = page.locator("[role=dialog] [data-action=confirm]");
    expect(await confirm.isDisabled()).to.equal(true);
    await page.fill("[name=confirm]", newest?.kid.slice(0, 8) ?? "");
    await confirm.click();
    await row.getByText("retired").waitFor();
    expect(await row.locator("[data-action=retire]").count()).to.equal(0);
  });

  it("shows an operator and an auditor no keys and no workspaces.", async () => {
    for (const role of ["operator", "auditor"]) {
      const { secret = "" } = await dashboard.service.rest("POST /v1/admin/keys", { name: role, role });
      for (const path of ["/keys", "/workspaces"]) {
        const page = await open(path, { key: secret });
        await page.getByText("This screen is for admins").waitFor();
        expect(await page.locator("main [data-action], main [data-id]").count()).to.equal(0);
        expect(await page.locator("[data-nav=keys], [data-nav=workspaces]").count()).to.equal(0);
      }
    }
  });

  it("changes the settings of the workspace, with each fault at its field.", async () => {
    const page = await open("/workspaces");
    await page.waitForSelector("[data-workspace=default]");
    await page.click("[data-action=save]");
    await page.getByText("Nothing was changed.").waitFor();
    await page.fill("[name=initial_trust]", "101");
    await page.fill("[name=max_pending_escalations_per_agent]", "99999999999");
    await page.fill("[name=escalation_ttl_seconds]", "1.5");
    await page.selectOption("[name='escalation_ttl_seconds.unit']", { label: "seconds" });
    await page.fill("[name=key_ttl_days]", "-3");
    await page.click("[data-action=save]");
    for (const name of [
      "initial_trust",
      "max_pending_escalations_per_agent",
      "escalation_ttl_seconds",
      "key_ttl_days",
    ]) {
      await fieldOf(page, name).waitFor();
    }
    await page.fill("[name=initial_trust]", "60.5");
    await page.fill("[name=max_pending_escalations_per_agent]", "7");
    await page.fill("[name=key_ttl_days]", "365");
    await page.fill("[name=escalation_ttl_seconds]", "90");
    await page.fill("[name=rate_limit_key]", "many");
    await page.click("[data-action=save]");
    await fieldOf(page, "rate_limit_key").getByText("calls per second").waitFor();
    await page.fill("[name=rate_limit_key]", "1000:2000");
    await page.fill("[name=approval_ignores]", "traceparent\narguments");
    await page.click("[data-action=save]");
    await fieldOf(page, "approval_ignores").getByText("arguments").waitFor();
    await page.fill("[name=approval_ignores]", "traceparent\nbuild");
    await page.selectOption("[name=default_decision]", { label: "Escalate to a person" });
    await page.check("[name=four_eyes]");
    await page.selectOption("[name=outcomes]", { label: "All allowed actions" });
    await page.fill("[name=outcome_timeout_seconds]", "2");
    // What another admin changes meanwhile stays.
    await admin().updateWorkspace({ workspaceId: "default", unknownTools: Decision.BLOCK });
    await page.click("[data-action=save]");
    await page.getByText("Saved.").waitFor();
    const { workspace } = await admin().getWorkspace({ workspaceId: "default" });
    expect(workspace).to.deep.include({
      initialTrust: 60.5,
      maxPendingEscalationsPerAgent: 7,
      keyTtlDays: 365,
      rateLimitKey: "1000:2000",
      rateLimitWorkspace: "",
      escalationTtlSeconds: 90,
      fourEyes: true,
      outcomes: OutcomeTracking.ALL,
      outcomeTimeoutSeconds: 7_200,
      defaultDecision: Decision.ESCALATE,
      unknownTools: Decision.BLOCK,
      approvalTtlSeconds: 3_600,
      approvalIgnores: ["traceparent", "build"],
    });
  });

  it("creates a workspace, shows its admin key once, and reads its settings.", async () => {
    const page = await open("/workspaces");
    await page.click("[data-action=create-workspace]");
    await page.fill("[name=workspace_id]", "No");
    await page.click("[data-action=submit-workspace]");
    await fieldOf(page, "workspace_id").waitFor();
    await page.fill("[name=workspace_id]", "second");
    await page.fill("[role=dialog] [name=name]", "The second");
    await page.click("[data-action=submit-workspace]");
    const secret = (await page.locator("[data-secret]").textContent()) ?? "";
    await page.click("[data-action=stored]");
    await page.waitForURL("**/workspaces?open=second");
    await page.waitForSelector("[data-workspace=second] .facts");
    expect(await page.locator("[data-action=save]").count()).to.equal(0);
    const other = await open("/workspaces", { key: secret });
    await other.waitForSelector("[data-workspace=second] [data-action=save]");
    expect(await other.locator("[data-action=create-workspace]").count()).to.equal(0);
    expect(await other.locator("[data-action=open-workspace]").count()).to.equal(1);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await open("/keys", appearance);
      await page.waitForSelector(".keys-row");
      await assertColumns(page, "Keys", ["Name", "Role", "State", "Created", "Actions"]);
      await page.click("[data-action=signing-keys]");
      await page.waitForSelector(".signing-key");
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `keys-${name}`);
      await page.click("[data-action=create-key]");
      await page.fill("[name=name]", `shown ${name}`);
      await assertAccessible(page);
      await screenshot(page, `keys-create-${name}`);
      await page.click("[data-action=submit-key]");
      await page.waitForSelector("[data-secret]");
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `keys-secret-${name}`);
      await page.goto("/workspaces");
      await page.waitForSelector("[data-action=save]");
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `workspaces-${name}`);
    });
  }
});
