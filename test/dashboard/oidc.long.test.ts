import { expect } from "chai";
import type { Page } from "playwright-core";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { agentctl } from "../cli/harness.ts";
import { freePort } from "../support/free-port.ts";
import { CLIENT_ID, CLIENT_SECRET, startIssuer, type TestIssuer } from "../support/oidc-issuer.ts";
import {
  APPEARANCES,
  assertAccessible,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const ALICE = { sub: "1", email: "alice@example.com", email_verified: true, groups: ["acp-admins"] };

describeInBrowser("signing in to the dashboard by OpenID Connect", () => {
  let dashboard: Dashboard;
  let issuer: TestIssuer;

  before(async () => {
    const port = await freePort();
    const publicUrl = `http://127.0.0.1:${port}`;
    // Another site than the service's, so that the browser holds back strict cookies on the way from it.
    issuer = await startIssuer({ redirectUri: `${publicUrl}/dashboard/oidc/callback`, host: "localhost" });
    dashboard = await openDashboard({
      env: {
        ACP_HTTP_PORT: String(port),
        ACP_PUBLIC_URL: publicUrl,
        ACP_OIDC_ISSUER: issuer.url,
        ACP_OIDC_CLIENT_ID: CLIENT_ID,
        ACP_OIDC_CLIENT_SECRET: CLIENT_SECRET,
        ACP_OIDC_LABEL: "Example Login",
        ACP_OIDC_GROUP_MAP: "acp-admins=default:admin,readers=default:auditor,finance=pay:operator",
      },
      rules: [{ type: RuleType.ACTION, decision: Decision.ESCALATE, conditions: { matchActionTypes: ["pay.*"] } }],
    });
    await dashboard.service.rest("POST /v1/admin/workspaces", { workspace_id: "pay", name: "Payments" });
  });
  after(async () => {
    await dashboard?.close();
    await issuer?.close();
  });

  async function signIn(person: TestIssuer["person"], path: string): Promise<Page> {
    issuer.person = person;
    const page = await dashboard.open(path, { key: null });
    await page.click("[data-action=sign-in-oidc]");
    return page;
  }

  it("leads through the issuer back to the screen; the record names the person, until they sign out.", async () => {
    const { service } = dashboard;
    const agent_id = await service.agent();
    const asked = await service.rest("POST /v1/enforce/intercept", { agent_id, action_type: "pay.out" });
    const page = await signIn(ALICE, "/limits?agent=x");
    await page.waitForSelector("[data-screen=limits]");
    expect(page.url()).to.equal(`${service.http}/limits?agent=x`);
    const cookies = await page.context().cookies(`${service.http}/`);
    expect(cookies.map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite }))).to.deep.equal([
      { name: "acp_sign_in", httpOnly: true, sameSite: "Strict" },
    ]);
    const { escalation_id: id, decision_id } = asked as unknown as { escalation_id: string; decision_id: string };
    const status = await page.evaluate(async (escalationId) => {
      const { session } = await (await fetch("/dashboard/session")).json();
      const response = await fetch(`/v1/enforce/escalations/${escalationId}/resolve`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-csrf-token": session.csrf_token },
        body: JSON.stringify({ resolution: "approved", note: "seen" }),
      });
      return response.status;
    }, id);
    expect(status).to.equal(200);
    const { escalation } = await service.rest(`GET /v1/enforce/escalations/${id}`);
    const person = `oidc:${issuer.url}|1`;
    expect(escalation).to.include({ resolved_by: person, resolved_by_name: "alice@example.com" });
    const environment = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
    const explained = await agentctl(["vault", "explain", decision_id], environment);
    expect(`${explained.stdout}${explained.stderr}`).to.contain(person);
    await page.goto(`/escalations/${id}`);
    const resolver = page.locator(".outcome .actor");
    await resolver.waitFor();
    expect([await resolver.innerText(), await resolver.getAttribute("title")]).to.deep.equal([ALICE.email, person]);
    await page.goto("/evidence");
    await page.locator(`.entry-by .actor[title="${person}"]`, { hasText: ALICE.email }).waitFor();
    await page.click("[data-action=account]");
    await page.locator(`.menu-label .actor[title="${person}"]`, { hasText: ALICE.email }).waitFor();
    await page.click("[data-action=sign-out]");
    await page.waitForSelector("[data-screen=sign-in]");
    await page.reload();
    await page.waitForSelector("[data-screen=sign-in]");
    expect(await page.context().cookies(`${service.http}/`)).to.deep.equal([]);
  });

  it("offers the workspaces of a person who has several.", async () => {
    const page = await signIn({ sub: "2", email: "bob@example.com", groups: ["finance", "readers"] }, "/limits");
    await page.getByRole("heading", { name: "Choose a workspace" }).waitFor();
    await assertAccessible(page);
    await screenshot(page, "oidc-choice");
    await page.click("button[value=pay]");
    await page.waitForSelector("[data-screen=limits]");
    expect(await page.locator(".account-workspace").innerText()).to.equal("pay");
    expect(await page.locator(".account-role").innerText()).to.equal("operator");
  });

  it("tells people without a role so.", async () => {
    const page = await signIn({ sub: "3", email: "eve@example.com", groups: ["others"] }, "/limits");
    await page.waitForSelector("[data-fault=no-group]");
    await assertAccessible(page);
    await screenshot(page, "oidc-no-group");
    await page.getByRole("link", { name: "Sign in with a key" }).click();
    await page.waitForSelector("[data-screen=sign-in]");
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await dashboard.open("/", { key: null, ...appearance });
      await page.waitForSelector("[data-action=sign-in-oidc]");
      await assertAccessible(page);
      await screenshot(page, `sign-in-oidc-${name}`);
      await page.goto("/dashboard/oidc/callback?code=x&state=y");
      await page.waitForSelector("[data-fault=expired]");
      await assertAccessible(page);
      await screenshot(page, `oidc-fault-${name}`);
    });
  }
});
