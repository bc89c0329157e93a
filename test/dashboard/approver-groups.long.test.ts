import { expect } from "chai";
import type { Page } from "playwright-core";
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

const HOSTILE = "<img src=x onerror=window.hacked=1>";
const ISSUER = "https://id.example";

describeInBrowser("the approver groups of the dashboard", () => {
  let dashboard: Dashboard;
  let page: Page;
  let ada: string;

  const rest = (...given: Parameters<Dashboard["service"]["rest"]>) => dashboard.service.rest(...given);
  const open = async (path: string, options = {}): Promise<Page> => {
    const opened = await dashboard.open(path, options);
    await opened.waitForSelector("[data-screen]");
    return opened;
  };
  const fieldOf = (name: string, on = page) =>
    on.locator(".field", { has: on.locator(`[name="${name}"]`) }).locator("[role=alert]");
  const submit = (on = page) => on.click("[role=dialog] [data-action=submit-group]");
  const chosen = (field: string) => page.locator(`[role=dialog] [data-field=${field}] [data-person]`);
  const groupOf = async (name: string) => {
    const { approver_group: group } = await rest(`GET /v1/enforce/approver-groups/${name}`);
    return group as unknown as Readonly<Record<"members" | "deputies" | "oidc_groups", readonly unknown[]>>;
  };
  const put = (name: string, body: object) => rest(`PUT /v1/enforce/approver-groups/${name}`, body);
  const mandate = async (name: string, approvers: object): Promise<string> => {
    const made = await rest("POST /v1/enforce/mandates", {
      name,
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: [name] }, approvers }],
    });
    return (made as unknown as { mandate: { mandate_id: string } }).mandate.mandate_id;
  };
  const archive = (id: string) => rest(`DELETE /v1/enforce/mandates/${id}`);

  before(async () => {
    dashboard = await openDashboard();
    const { person } = (await rest("POST /v1/admin/people", {
      name: `Ada ${HOSTILE}`,
      role: "operator",
    })) as unknown as {
      readonly person: { readonly actor: string };
    };
    ada = person.actor;
  });
  // A page of its own for each test.
  beforeEach(async () => {
    page = await open("/approver-groups");
  });
  after(() => dashboard.close());

  it("begin empty, and take people by name, owners of keys and groups of an identity provider.", async () => {
    await page.getByText("There is no approver group yet").waitFor();
    await page.click("[data-action=create-group]");
    await page.fill("[name=name]", "Finance");
    await submit();
    await fieldOf("name").waitFor();
    await page.fill("[name=name]", "finance");
    await page.fill("[name=description]", `Payments ${HOSTILE}`);
    await page.selectOption("[name='members.person']", ada);
    await chosen("members").getByText(HOSTILE).waitFor();
    await page.fill("[name='members.new']", "Bob");
    await page.keyboard.press("Enter");
    await page.fill("[name='members.new']", "oidc:bob");
    await page.click("[data-action=add-members]");
    expect(await chosen("members").count()).to.equal(3);
    await page.fill("[name=oidc_groups]", `${ISSUER} payers\nfinance team`);
    await submit();
    await fieldOf("oidc_groups").getByText("line 2").waitFor();
    await page.fill("[name=oidc_groups]", `${ISSUER} payers\n${ISSUER} team ${HOSTILE}`);
    await submit();
    await fieldOf("members.new").getByText("line 3").waitFor();
    await chosen("members").filter({ hasText: "oidc:bob" }).locator("[data-action=remove-person]").click();
    // What is typed and not added yet is not lost.
    await page.fill("[name='deputies.new']", "Zoe");
    await submit();
    await page.waitForSelector("[data-screen=approver-group]");
    await page.locator("[data-part=members]").getByText(`team ${HOSTILE}`).waitFor();
    expect(await groupOf("finance")).to.deep.include({
      members: ["Bob", ada].sort(),
      deputies: ["Zoe"],
      oidc_groups: [
        { issuer: ISSUER, group: "payers" },
        { issuer: ISSUER, group: `team ${HOSTILE}` },
      ],
    });
    expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
    expect(await page.locator("main img").count()).to.equal(0);
  });

  it("do not take the name of another, which would replace its people.", async () => {
    await page.click("[data-action=create-group]");
    await page.fill("[name=name]", "finance");
    await page.fill("[name='members.new']", "Mallory");
    await submit();
    await fieldOf("name").getByText("is taken").waitFor();
    expect((await groupOf("finance")).members).to.include("Bob");
  });

  it("are changed, but not below what a mandate asks for, and not deleted while one names them.", async () => {
    await put("legal", { members: ["Ann", "Cleo"] });
    const id = await mandate("contracts", { groups: ["legal"], at_least: 2 });
    await page.goto("/approver-groups/legal");
    await page.getByText("Named by contracts").waitFor();
    await page.click("[data-action=edit-group]");
    await chosen("members").filter({ hasText: "Cleo" }).locator("[data-action=remove-person]").click();
    await submit();
    await page.locator("[role=dialog] .fault").getByText("asks for 2 people where 1 are left").waitFor();
    await page.fill("[name='members.new']", "Dan");
    await submit();
    await page.locator("[data-part=members] [data-person=Dan]").waitFor();
    expect((await groupOf("legal")).members).to.deep.equal(["Ann", "Dan"]);
    await page.click("[data-action=delete-group]");
    await page.locator("[role=dialog]").getByText("Named by contracts").waitFor();
    expect(await page.locator("[role=dialog] [data-action=confirm]").isDisabled()).to.equal(true);
    await page.click("[role=dialog] [data-action=cancel]");
    await archive(id);
    await page.reload();
    await page.click("[data-action=delete-group]");
    const confirm = page.locator("[role=dialog] [data-action=confirm]:enabled");
    await confirm.waitFor();
    // Another person publishes a mandate while the dialog is open.
    const late = await mandate("late", { groups: ["legal"] });
    await confirm.click();
    await page.locator("[role=dialog] .fault").getByText("late").waitFor();
    await archive(late);
    await confirm.click();
    await page.waitForSelector("[data-screen=approver-groups]");
    await page.locator("[data-id=legal]").waitFor({ state: "detached" });
  });

  it("are read by operators and auditors, who change nothing.", async () => {
    for (const role of ["operator", "auditor"]) {
      const { secret: key = "" } = await rest("POST /v1/admin/keys", { name: role, role });
      const reader = await open("/settings", { key });
      await reader.click("[data-screen=settings] [data-id=approver-groups] a");
      await reader.click("[data-screen=approver-groups] [data-id=finance] a");
      await reader.locator("[data-part=members] [data-person=Bob]").waitFor();
      for (const path of ["/approver-groups", "/approver-groups/finance"]) {
        await reader.goto(path);
        await reader.locator("main [data-id=finance]").waitFor();
        // The headings sort.
        const actions = reader.locator("main [data-action]:not([role=columnheader] *)");
        expect(await actions.count(), `${role} ${path}`).to.equal(0);
      }
      const refused = rest("PUT /v1/enforce/approver-groups/finance", { members: ["Mallory"] }, key);
      expect(await refused.then(String, String), role).to.contain("403");
    }
  });

  it("are found from everywhere.", async () => {
    await page.goto("/overview");
    await page.waitForSelector("[data-screen=overview]");
    await page.keyboard.press("Control+k");
    await page.locator("[role=combobox]:focus").waitFor();
    await page.keyboard.type("approver");
    await page.locator("[role=option]", { hasText: "Approvers" }).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-screen=approver-groups]");
    await page.goto("/approver-groups/none");
    await page.locator("[role=alert]").getByText("none").waitFor();
  });

  it("are chosen in the form of a rule, which shows at the field what does not compile.", async () => {
    await put("small", { members: ["Ann"], description: HOSTILE });
    await page.goto("/mandates/new");
    await page.locator(".cm-content").waitFor();
    await page.click("[data-action=add-rule]");
    await page.selectOption("[name=kind]", "action");
    await page.fill("[name=types]", "wire.*");
    await page.check("[name='approvers.groups'][value=small]");
    await page.fill("[name='approvers.at_least']", "2");
    await page.click("[role=dialog] [data-action=confirm]");
    await fieldOf("approvers.at_least").getByText("`small` has 1 in all").waitFor();
    await page.fill("[name='approvers.at_least']", "1");
    await page.fill("[name='approvers.remind_after_seconds']", "soon");
    await page.click("[role=dialog] [data-action=confirm]");
    await fieldOf("approvers.remind_after_seconds").waitFor();
    await page.fill("[name='approvers.remind_after_seconds']", "30");
    await page.selectOption("[name='approvers.remind_after_seconds.unit']", { label: "minutes" });
    await assertAccessible(page);
    await page.click("[role=dialog] [data-action=confirm]");
    await page.locator("[role=dialog]").waitFor({ state: "detached" });
    const lines = await page.locator(".cm-content .cm-line").allInnerTexts();
    const text = lines.join("\n").replaceAll(/[^\S\n]+/g, " ");
    expect(text).to.contain("approvers:\n groups:\n - small\n at_least: 1\n remind_after_seconds: 1800");
    // A rule that does not escalate has no approvers.
    await page.click("[data-action=add-rule]");
    await page.selectOption("[name=decision]", "block");
    expect(await page.locator("[name='approvers.at_least']").count()).to.equal(0);
    expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
  });

  it("are completed in the text of a rule.", async () => {
    await page.goto("/mandates/new");
    await page.locator(".cm-content").click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText("name: x\nrules:\n  - approvers:\n      groups: [fin");
    await page.keyboard.press("Control+ ");
    await page.locator(".cm-tooltip-autocomplete li", { hasText: "finance" }).click();
    await page.locator(".cm-line", { hasText: "groups: [finance" }).waitFor();
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible (${name}).`, async () => {
      const shown = await open("/approver-groups", appearance);
      await shown.waitForSelector(".approver-groups-row");
      const titles = ["Name", "Members", "OIDC groups", "Deputies", "Mandates", "Changed"];
      await assertColumns(shown, "Approver groups", titles);
      await assertAccessible(shown);
      await screenshot(shown, `approver-groups-${name}`);
      await shown.goto("/approver-groups/finance");
      await shown.waitForSelector("[data-part=deputies]");
      await assertAccessible(shown);
      await assertFits(shown);
      await screenshot(shown, `approver-group-${name}`);
      await shown.click("[data-action=edit-group]");
      await shown.waitForSelector("[role=dialog] [data-person]");
      await assertAccessible(shown);
      await assertFits(shown);
      if (appearance.width === 390) {
        const heights = await shown
          .locator("[role=dialog] .people-field button >> visible=true")
          .evaluateAll((buttons) => buttons.map((each) => Math.round(each.getBoundingClientRect().height)));
        expect(Math.min(...heights)).to.be.at.least(44);
      }
      await screenshot(shown, `approver-group-edit-${name}`);
    });
  }
});
