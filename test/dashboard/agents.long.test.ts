import { expect } from "chai";
import type { Page } from "playwright-core";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { DepartmentService } from "../../gen/agentcontrol/v1/department_service_pb.js";
import { MandateService, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
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

const MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
const HOSTILE_NAME = `${"W".repeat(90)}\u00a0${MARKUP}`;
const HOSTILE = `\u05e9\u05dc\u05d5\u05dd${MARKUP}\u202egnp.exe\u200b`;

describeInBrowser("the agents and departments of the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard();
    const { admin } = dashboard.service;
    for (const name of ["Anna", "Andreas", "Bert"]) await admin.client(AgentService).registerAgent({ name });
  });
  after(() => dashboard.close());

  const open = async (path: string, options = {}): Promise<Page> => {
    const page = await dashboard.open(path, options);
    await page.waitForSelector("[data-screen]");
    return page;
  };
  const agentId = async (name: string): Promise<string> => {
    const { agents } = await dashboard.service.admin.client(AgentService).listAgents({ q: name });
    return agents[0]?.agentId ?? "";
  };
  const department = async (name: string, description = `the people of ${name}`): Promise<string> => {
    const client = dashboard.service.admin.client(DepartmentService);
    return (await client.createDepartment({ name, description })).department?.departmentId ?? "";
  };
  const names = (page: Page): Promise<string[]> => page.locator(".agents-row a").allInnerTexts();

  it("registers an agent, with each fault at its field.", async () => {
    const page = await open("/agents");
    await page.click("[data-action=register]");
    await page.fill("[name=framework]", "langgraph");
    await page.click("[data-action=submit-register]");
    await page
      .locator(".field", { has: page.locator("[name=name]") })
      .locator("[role=alert]")
      .waitFor();
    await page.fill("[name=name]", "Clara");
    await page.fill("[name=capabilities]", "mail.read\n\npay\u200bment");
    await page.click("[data-action=submit-register]");
    const capabilities = page.locator(".field", { has: page.locator("[name=capabilities]") });
    await capabilities.getByText("line 2:").waitFor();
    await page.fill("[name=capabilities]", "mail.read\nmail.send");
    await page.fill('[name="permissions.denied_action_types"]', "payment.*");
    await page.click("[data-action=submit-register]");
    await page.waitForSelector("[data-screen=agent]");
    const id = new URL(page.url()).pathname.split("/")[2] ?? "";
    const { agent } = await dashboard.service.admin.client(AgentService).getAgent({ agentId: id });
    expect(agent?.name).to.equal("Clara");
    expect(agent?.capabilities).to.deep.equal(["mail.read", "mail.send"]);
    expect(agent?.permissions?.deniedActionTypes).to.deep.equal(["payment.*"]);
  });

  it("finds agents by name, status, department and order, and keeps the filters in the address.", async () => {
    const departmentId = await department("Sales");
    const andreas = await agentId("Andreas");
    await dashboard.service.admin.client(DepartmentService).addDepartmentMember({ departmentId, agentId: andreas });
    const page = await open("/agents");
    await page.waitForSelector(".agents-row");
    await page.fill("[name=q]", "an");
    await page.waitForURL("**/agents?q=an");
    await page.getByText("2 agents", { exact: true }).waitFor();
    expect(await names(page)).to.have.members(["Anna", "Andreas"]);
    await page.selectOption("[name=order]", "name");
    await page.waitForURL("**/agents?q=an&order=name");
    await page.waitForFunction(() => document.querySelector(".agents-row a")?.textContent === "Andreas");
    await page.selectOption("[name=department]", departmentId);
    await page.getByText("1 agent", { exact: true }).waitFor();
    expect(await names(page)).to.deep.equal(["Andreas"]);
    await page.reload();
    await page.getByText("1 agent", { exact: true }).waitFor();
    expect(await page.inputValue("[name=q]")).to.equal("an");
    await page.selectOption("[name=status]", "revoked");
    await page.getByText("No agent matches").waitFor();
    await page.click("[data-action=clear-filters]");
    await page.getByText("Bert").waitFor();
    expect(new URL(page.url()).search).to.equal("");
  });

  it("opens the agent that was pressed, also if the list becomes another before the press ends.", async () => {
    const page = await open("/agents?order=name");
    const row = page.locator(".agents-row", { hasText: "Bert" });
    await row.waitFor();
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route("**/agentcontrol.v1.AgentService/ListAgents*", async (route) => {
      await answered;
      await route.continue();
    });
    const asked = page.waitForRequest("**/agentcontrol.v1.AgentService/ListAgents*");
    await page.fill("[name=q]", "b");
    await asked;
    expect(await names(page), "while it is read").to.include.members(["Anna", "Andreas", "Bert"]);
    await row.getByRole("link").hover();
    await page.mouse.down();
    const read = page.waitForResponse("**/agentcontrol.v1.AgentService/ListAgents*");
    answer();
    await (await read).finished();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    expect(await names(page), "while the pointer is down").to.include("Anna");
    await page.mouse.up();
    await page.waitForURL(`**/agents/${await agentId("Bert")}`);
    await page.goBack();
    await page.locator(".agents-row", { hasText: "Anna" }).waitFor({ state: "detached" });
    expect(await names(page)).to.deep.equal(["Bert"]);
  });

  it("creates departments, adds and removes members, and shows why one cannot be deleted.", async () => {
    const page = await open("/agents");
    await page.click("[data-action=tab-departments]");
    await page.waitForURL("**/agents?tab=departments");
    await page.click("[data-action=create-department]");
    await page.fill("[name=name]", "Sales");
    await page.click("[data-action=submit-department]");
    await page.locator("[role=dialog] [role=alert]").getByText("Sales").waitFor();
    await page.fill("[name=name]", "Purchase");
    await page.click("[data-action=submit-department]");
    await page.waitForSelector("[data-department]");
    const departmentId = await page.locator("[data-department]").getAttribute("data-department");
    await page.fill('[name="agent_id.search"]', "Ber");
    const bert = await agentId("Bert");
    await page.click("[data-action=add-member]");
    await page
      .locator(".field", { has: page.locator("[name=agent_id]") })
      .locator("[role=alert]")
      .waitFor();
    await page.locator("select[name=agent_id] option", { hasText: "Andreas" }).waitFor({ state: "detached" });
    await page.selectOption("select[name=agent_id]", bert);
    await page.click("[data-action=add-member]");
    await page.locator(`[data-department] [data-id=${bert}]`).waitFor();
    await page.locator(`[data-id=${departmentId}]`).getByText("1 member").waitFor();
    await page.click("[data-action=remove-member]");
    await page.getByText("It has no members.").waitFor();
    const { mandate } = await dashboard.service.admin.client(MandateService).createMandate({
      name: "purchases",
      scope: Scope.DEPARTMENT,
      departmentId: departmentId ?? "",
      rules: [{ type: RuleType.ACTION, decision: Decision.BLOCK, conditions: { matchActionTypes: ["buy"] } }],
    });
    await page.click("[data-action=delete-department]");
    await page.click("[data-action=confirm]");
    await page.locator("[role=dialog] [role=alert]").getByText("purchases").waitFor();
    await dashboard.service.admin.client(MandateService).archiveMandate({ mandateId: mandate?.mandateId ?? "" });
    await page.click("[data-action=confirm]");
    await page.locator(`[data-id=${departmentId}]`).waitFor({ state: "detached" });
    expect(new URL(page.url()).search).to.equal("?tab=departments");
  });

  it("shows hostile texts as text, with what nobody would see made visible.", async () => {
    const hostile = { name: HOSTILE_NAME, description: HOSTILE };
    const { agent } = await dashboard.service.admin.client(AgentService).registerAgent(hostile);
    const departmentId = await department(HOSTILE_NAME, HOSTILE);
    const member = { departmentId, agentId: agent?.agentId ?? "" };
    await dashboard.service.admin.client(DepartmentService).addDepartmentMember(member);
    for (const path of ["/agents", `/agents?tab=departments&open=${departmentId}`, `/agents/${agent?.agentId}`]) {
      const page = await open(path);
      await page
        .getByText(path === "/agents" ? "U+00A0" : "U+202E")
        .first()
        .waitFor();
      expect(await page.locator("main img, main script").count()).to.equal(0);
      expect(await page.evaluate(() => (window as { hacked?: number }).hacked)).to.equal(undefined);
    }
  });

  it("shows an auditor everything and nothing that changes it.", async () => {
    const { secret = "" } = await dashboard.service.rest("POST /v1/admin/keys", { name: "a", role: "auditor" });
    const departmentId = await department("Audit");
    const bert = await agentId("Bert");
    const SCREENS = [
      { path: "/agents", shows: ".agents-row" },
      { path: `/agents?tab=departments&open=${departmentId}`, shows: "[data-department]" },
      { path: `/agents/${bert}`, shows: "[data-status]" },
      { path: `/agents/${bert}?tab=authority`, shows: ".authority-group" },
    ];
    const READS = ["tab-agents", "tab-departments", "tab-timeline", "tab-authority", "open-department", "incident"];
    for (const { path, shows } of SCREENS) {
      const page = await open(path, { key: secret });
      await page.waitForSelector(shows);
      const actions = await page
        .locator("main [data-action]")
        .evaluateAll((all) => all.map((each) => (each as HTMLElement).dataset.action ?? ""));
      expect(
        actions.filter((action) => !READS.includes(action)),
        path,
      ).to.deep.equal([]);
    }
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const { departments } = await dashboard.service.admin.client(DepartmentService).listDepartments({});
      const sales = departments.find((each) => each.name === "Sales")?.departmentId;
      const page = await open("/agents", appearance);
      await page.waitForSelector(".agents-row");
      await assertColumns(page, "Agents", ["Name", "Trust", "Status", "Departments", "Last action"]);
      await assertAccessible(page);
      await screenshot(page, `agents-${name}`);
      await page.click("[data-action=register]");
      await assertAccessible(page);
      await screenshot(page, `agents-register-${name}`);
      await page.goto(`/agents?tab=departments&open=${sales}`);
      await page.waitForSelector(".member-row");
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `departments-${name}`);
    });
  }
});
