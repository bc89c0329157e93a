import { expect } from "chai";
import type { Page } from "playwright-core";
import {
  APPEARANCES,
  assertAccessible,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

/** Name of a person that would be run if it were read as HTML, and that turns the text around. */
const HOSTILE = "<img src=x onerror=window.hacked=1> Eve";
const HOSTILE_NOTE = '"><script>window.hacked=1</script>';

describeInBrowser("approvals of several people on the dashboard", () => {
  let dashboard: Dashboard;
  let agentId: string;
  let contents = 0;
  /** Keys of the people, by their names. */
  const keys: Record<"Ann" | "Bob" | "Cleo" | "Dan" | "Eve" | "auditor", string> = {
    Ann: "",
    Bob: "",
    Cleo: "",
    Dan: "",
    Eve: "",
    auditor: "",
  };
  type Person = keyof typeof keys;

  const rest = (...given: Parameters<Dashboard["service"]["rest"]>) => dashboard.service.rest(...given);
  const keyOf = async (draft: object): Promise<string> => String((await rest("POST /v1/admin/keys", draft)).secret);
  /** Publishes a mandate with a rule for each of some approvers. */
  const mandate = (type: string, ...demands: readonly object[]) =>
    rest("POST /v1/enforce/mandates", {
      name: `approvals of ${type}`,
      rules: demands.map((approvers) => ({
        type: "action",
        decision: "escalate",
        conditions: { match_action_types: [type] },
        approvers,
      })),
    });
  const ask = async (type: string): Promise<string> => {
    const asked = { agent_id: agentId, action_type: type, action_content: `number ${contents++}` };
    return String((await rest("POST /v1/enforce/intercept", asked)).escalation_id);
  };
  const approve = (id: string, by: Person, note?: string) =>
    rest(`POST /v1/enforce/escalations/${id}/resolve`, { resolution: "approved", note }, keys[by]);
  const statusOf = async (id: string): Promise<string> =>
    String((await rest(`GET /v1/enforce/escalations/${id}/status`)).status);
  const openAs = async (person: Person, path: string, options = {}): Promise<Page> => {
    const page = await dashboard.open(path, { key: keys[person], ...options });
    await page.waitForSelector("[data-screen]");
    return page;
  };
  const need = (page: Page, group = "finance") => page.locator(`article [data-need="${group}"]`);
  const obstacle = (page: Page) => page.locator("article [data-obstacle]");
  const button = (page: Page, action: string) => page.locator(`article [data-action=${action}]`);
  const row = (page: Page, id: string) => page.locator(`.queue-list [data-id="${id}"]`);
  const isInert = async (page: Page): Promise<void> => {
    expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
    expect(await page.locator("main img, main script").count()).to.equal(0);
  };

  before(async () => {
    dashboard = await openDashboard();
    agentId = await dashboard.service.agent("payer");
    for (const name of ["Ann", "Bob", "Cleo", "Dan"] as const) {
      keys[name] = await keyOf({ name: `key of ${name}`, role: "operator", owner: name });
    }
    const { person } = (await rest("POST /v1/admin/people", { name: HOSTILE, role: "operator" })) as unknown as {
      readonly person: { readonly actor: string };
    };
    keys.Eve = await keyOf({ name: "key of Eve", role: "operator", owner: person.actor });
    keys.auditor = await keyOf({ name: "auditor", role: "auditor" });
    const put = (name: string, members: readonly string[], deputies: readonly string[] = []) =>
      rest(`PUT /v1/enforce/approver-groups/${name}`, { members, deputies });
    await put("finance", ["Ann", "Bob", "Cleo"], ["Dan"]);
    await put("legal", ["Cleo", person.actor]);
    await mandate("pay", { groups: ["finance"], at_least: 2 });
    await mandate("wire", { groups: ["finance"], at_least: 3 });
    await mandate("sign", { groups: ["finance"], at_least: 2 }, { groups: ["legal"] });
    await mandate("remind", { groups: ["finance"], at_least: 2, remind_after_seconds: 1 });
    await put("varying", ["Ann", "Bob"]);
    await mandate("vary", { groups: ["varying"] });
    await mandate("free", {});
  });
  // A test that fails leaves nothing to the ones after it.
  afterEach(async () => {
    const { escalations } = await rest("GET /v1/enforce/escalations?status=pending&page_size=100");
    for (const { escalation_id: id } of escalations as unknown as readonly { escalation_id: string }[]) {
      await dashboard.service.resolve(id, "rejected");
    }
  });
  after(() => dashboard.close());

  it("are counted on the card, live for everybody who watches, and taken back until the last.", async () => {
    const id = await ask("pay");
    const [ann, bob] = [await openAs("Ann", "/escalations"), await openAs("Bob", `/escalations/${id}`)];
    const auditor = await openAs("auditor", `/escalations/${id}`);
    for (const page of [ann, bob, auditor]) {
      await need(page).getByText("0 of 2 given").waitFor();
      await need(page).getByText("Waits for 2 more members of finance.").waitFor();
    }
    expect(await auditor.locator("article footer button").count()).to.equal(0);
    await row(ann, id).getByText("0 of 2", { exact: true }).waitFor();
    await ann.fill("[name=approval-note]", HOSTILE_NOTE);
    await button(ann, "approve").click();
    await ann.getByText("You approved; waiting for 1 more of finance.").waitFor();
    await row(ann, id).getByText("1 of 2", { exact: true }).waitFor();
    expect(await button(ann, "approve").count()).to.equal(0);
    for (const page of [ann, bob, auditor]) {
      await need(page).getByText("1 of 2 given").waitFor();
      const given = need(page).locator("[data-approved-by]");
      expect(await given.innerText())
        .to.contain("Ann approved")
        .and.to.contain(HOSTILE_NOTE);
      await isInert(page);
    }
    await button(ann, "withdraw-approval").click();
    for (const page of [ann, bob]) await need(page).getByText("0 of 2 given").waitFor();
    await button(ann, "approve").click();
    await need(bob).getByText("1 of 2 given").waitFor();
    await button(bob, "approve").click();
    await bob.locator("article .outcome").getByText("approved", { exact: true }).waitFor();
    await ann.locator(`[data-answered="${id}"]`).getByText("approved", { exact: true }).waitFor();
    const told = bob.locator("article .outcome [data-approved-by]");
    expect((await told.allInnerTexts()).map((text) => text.slice(0, 12))).to.deep.equal([
      "Ann approved",
      "Bob approved",
    ]);
    await ann.goto("/escalations?show=answered");
    await ann.locator(".resolved", { hasText: "Bob approved" }).getByText("Ann approved").waitFor();
    await bob.getByRole("link", { name: "The decision" }).click();
    await bob.locator("[data-part=approval]").getByText("2 of 2 given").waitFor();
    await bob.locator("[data-part=approval]").getByText("Ann approved").waitFor();
  });

  it("have a line for each demand, and one person counts for every group that they are in.", async () => {
    const id = await ask("sign");
    const page = await openAs("Cleo", `/escalations/${id}`);
    await need(page).getByText("0 of 2 given").waitFor();
    await need(page, "legal").getByText("0 of 1 given").waitFor();
    await button(page, "approve").click();
    await need(page).getByText("1 of 2 given").waitFor();
    await need(page, "legal").getByText("1 of 1 given").waitFor();
    expect(await need(page, "legal").locator("[data-missing]").count()).to.equal(0);
    await obstacle(page).getByText("You approved; waiting for 1 more of finance.").waitFor();
    const eve = await openAs("Eve", `/escalations/${id}`);
    await obstacle(eve).getByText("Enough of your groups have approved; waiting for 1 more of finance.").waitFor();
    expect(await button(eve, "approve").isDisabled()).to.equal(true);
  });

  it("say before a press why one would not count, and offer what the service takes.", async () => {
    const id = await ask("pay");
    const cases: readonly (readonly [Person | undefined, string, string])[] = [
      ["Dan", "not_a_member", "you are not in finance"],
      [undefined, "asked", "You asked for this"],
    ];
    for (const [person, word, text] of cases) {
      const page =
        person === undefined ? await dashboard.open(`/escalations/${id}`) : await openAs(person, `/escalations/${id}`);
      await page.locator(`article [data-obstacle=${word}]`).getByText(text).waitFor();
      expect(await button(page, "approve").isDisabled(), word).to.equal(true);
      expect(await button(page, "reject").isEnabled(), word).to.equal(true);
      expect(await button(page, "approve").getAttribute("aria-describedby")).to.equal(
        await obstacle(page).getAttribute("id"),
      );
      await assertAccessible(page);
      await page.close();
    }
    const dan = await openAs("Dan", "/escalations");
    await obstacle(dan).waitFor();
    await dan.locator("[data-action=shortcuts]").check();
    await dan.keyboard.press("a");
    await dan.locator(".announcements").getByText("you are not in finance").waitFor();
    expect(await statusOf(id)).to.equal("pending");
    await button(dan, "reject").click();
    await dan.click("[role=dialog] [data-action=confirm]");
    await dan.locator(`[data-answered="${id}"]`).getByText("rejected", { exact: true }).waitFor();
  });

  it("shut out whoever asked from every answer where the workspace wants four eyes.", async () => {
    await rest("PATCH /v1/admin/workspaces/default", { four_eyes: true });
    try {
      for (const type of ["pay", "free"]) {
        const page = await dashboard.open(`/escalations/${await ask(type)}`);
        await page.locator("article [data-obstacle=four_eyes]").waitFor();
        for (const action of ["approve", "edit", "reject"]) {
          expect(await button(page, action).isDisabled(), `${type} ${action}`).to.equal(true);
        }
        await page.close();
      }
    } finally {
      await rest("PATCH /v1/admin/workspaces/default", { four_eyes: false });
    }
  });

  it("are asked for again by the page when a refusal shows that it is behind.", async () => {
    const id = await ask("vary");
    const page = await openAs("Bob", `/escalations/${id}`);
    await button(page, "approve").waitFor();
    await rest("PUT /v1/enforce/approver-groups/varying", { members: ["Ann"] });
    await button(page, "approve").click();
    await page.locator("article [data-obstacle=not_a_member]").waitFor();
    expect(await button(page, "approve").isDisabled()).to.equal(true);
    await rest("PUT /v1/enforce/approver-groups/varying", { members: ["Ann", "Bob"] });
    // The page asks every 15 seconds: groups change without news of the escalation.
    await page.locator("article [data-action=approve]:enabled").waitFor({ timeout: 60_000 });
    expect(await obstacle(page).count()).to.equal(0);
  });

  it("of deputies count from the reminder on, and the card says so.", async () => {
    const id = await ask("remind");
    const page = await openAs("Dan", `/escalations/${id}`);
    await need(page).getByText("or for deputies: people were reminded").waitFor({ timeout: 60_000 });
    await page.locator("article [data-action=approve]:enabled").click();
    await obstacle(page).getByText("You approved; waiting for 1 more of finance.").waitFor();
    await need(page).getByText("Dan approved").waitFor();
  });

  it("that two people give at once both count, on every page.", async () => {
    const id = await ask("wire");
    const pages = [await openAs("Ann", `/escalations/${id}`), await openAs("Bob", `/escalations/${id}`)];
    for (const page of pages) await button(page, "approve").waitFor();
    await Promise.all(pages.map((page) => button(page, "approve").click()));
    for (const page of pages) {
      await need(page).getByText("2 of 3 given").waitFor();
      await obstacle(page).getByText("You approved; waiting for 1 more of finance.").waitFor();
    }
    expect(await statusOf(id)).to.equal("pending");
    const both = await ask("pay");
    const again = [await openAs("Ann", `/escalations/${both}`), await openAs("Bob", `/escalations/${both}`)];
    for (const page of again) await button(page, "approve").waitFor();
    await Promise.all(again.map((page) => button(page, "approve").click()));
    for (const page of again) {
      await page.locator("article .outcome").getByText("approved", { exact: true }).waitFor();
      expect(await page.locator("article .outcome [data-approved-by]").count()).to.equal(2);
    }
  });

  it("are found by a filter that stays in the address: what waits for me.", async () => {
    const [paid, signed, free] = [await ask("pay"), await ask("sign"), await ask("free")];
    const other = await ask("pay");
    await approve(other, "Ann");
    const page = await openAs("Ann", "/escalations");
    await page.getByText("Pending (4)").waitFor();
    await page.selectOption("[name=mine][data-action=filter]", { label: "For me" });
    await page.getByText("Pending (3)").waitFor();
    expect(new URL(page.url()).search).to.equal("?mine=true");
    await row(page, other).waitFor({ state: "detached" });
    await page.reload();
    await page.getByText("Pending (3)").waitFor();
    await row(page, paid).getByRole("link").click();
    await page.locator(`#card-${paid} [data-action=approve]`).click();
    await page.getByText("Pending (2)").waitFor();
    // It keeps its place a moment, so that the approval can be taken back.
    await page.locator(`#card-${paid} [data-obstacle=given]`).waitFor();
    await row(page, paid).getByText("1 of 2", { exact: true }).waitFor();
    await page.locator(`#card-${paid} [data-action=withdraw-approval]`).click();
    await page.getByText("Pending (3)").waitFor();
    await page.click("[data-action=clear-filters]");
    await page.getByText("Pending (4)").waitFor();
    await page.goBack();
    await page.getByText("Pending (3)").waitFor();
    for (const id of [paid, signed, free]) await row(page, id).waitFor();
    const auditor = await openAs("auditor", "/escalations");
    await auditor.getByText("Pending (4)").waitFor();
    expect(await auditor.locator("[name=mine]").count()).to.equal(0);
  });

  it("of several at once leave out what waits for others.", async () => {
    const [paid, signed] = [await ask("pay"), await ask("sign")];
    const page = await openAs("Eve", "/escalations");
    await page.getByText("Pending (2)").waitFor();
    await page.locator(".queue-bar [data-action=select-all]").check();
    await page.click("[data-action=batch]");
    await page.locator("[role=dialog] [data-left-out='1']").waitFor();
    await page.getByRole("heading", { name: "Approve 1 actions" }).waitFor();
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("Approved 1 of 1.").waitFor();
    await row(page, signed).getByText("1 of 3", { exact: true }).waitFor();
    const { escalation } = await rest(`GET /v1/enforce/escalations/${paid}`);
    expect((escalation as unknown as { approvals: readonly object[] }).approvals).to.deep.equal([]);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are readable beside hostile names (${name}).`, async () => {
      const id = await ask("sign");
      await approve(id, "Eve", HOSTILE_NOTE);
      await approve(id, "Ann", "Checked with the bank.");
      const page = await openAs("Ann", `/escalations/${id}`, appearance);
      await need(page, "legal").getByText(HOSTILE).waitFor();
      await isInert(page);
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `approvals-${name}`);
      await page.goto("/escalations");
      await row(page, id).getByText("2 of 3", { exact: true }).waitFor();
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `approvals-queue-${name}`);
      const other = await openAs("Dan", `/escalations/${id}`, appearance);
      await obstacle(other).waitFor();
      await assertAccessible(other);
      await assertFits(other);
      await screenshot(other, `approvals-not-mine-${name}`);
    });
  }
});
