import type { Page } from "playwright-core";
import type { SeededWeek } from "../dashboard/seed-week.ts";
import type { ToolsServer } from "../gateway/tools-server.ts";

/** Milliseconds after which a press without effect is repeated, as a person would. */
const PRESS_AGAIN_MS = 700;
/** Presses without effect before a task fails. */
const MAX_PRESSES = 30;

/** Calls the service over REST with the key of the seeded workspace. */
export type Rest = (request: string, body?: object) => Promise<Record<string, unknown>>;

/** State of the service before a task, and the page that does it. */
export interface TaskContext {
  readonly page: Page;
  readonly rest: Rest;
  readonly week: SeededWeek;
  readonly upstream: ToolsServer;
  /** Number of the round, from 0. */
  readonly round: number;
}

/** A task of an approver, from the overview to the moment at which its result is seen. */
export interface Task {
  readonly name: string;
  /** Makes what the task needs, before the time is taken. */
  prepare?(context: TaskContext): Promise<void>;
  run(context: TaskContext): Promise<void>;
}

/** Presses until an effect is seen: a press right after the queue moved is refused. */
async function press(page: Page, selector: string, effect: string): Promise<void> {
  for (let presses = 1; ; presses++) {
    // What opened meanwhile may cover the button.
    await page
      .locator(selector)
      .first()
      .click({ timeout: PRESS_AGAIN_MS })
      .catch(() => undefined);
    const seen = page.locator(effect).first().waitFor({ timeout: PRESS_AGAIN_MS });
    const fault = await seen.then(
      () => undefined,
      (error: unknown) => error,
    );
    if (fault === undefined) return;
    if (presses === MAX_PRESSES) throw fault;
  }
}

const to = async (page: Page, screen: string): Promise<void> => {
  await page.click(`[data-nav=${screen}]`);
  await page.waitForSelector(`[data-screen=${screen}]`);
};

interface Waiting {
  readonly escalation_id: string;
  readonly tool: string;
  readonly expires_at: string;
}

/** Returns the escalation that expires first, or the first one of a tool. */
async function mostUrgent(rest: Rest, tool?: string): Promise<string> {
  const { escalations } = await rest("GET /v1/enforce/escalations?status=pending&page_size=100");
  const waiting = (escalations as readonly Waiting[]).filter((each) => tool === undefined || each.tool === tool);
  const [first] = waiting.toSorted((a, b) => Date.parse(a.expires_at) - Date.parse(b.expires_at));
  if (first === undefined) throw new Error("no escalation waits");
  return first.escalation_id;
}

const CONFIRM = "[role=dialog] [data-action=confirm]";

const approve: Task = {
  name: "approve the most urgent of 25",
  async run({ page, rest }) {
    // Asked beside the page: the task fails unless the page offers this one.
    const urgent = mostUrgent(rest);
    await to(page, "escalations");
    await press(page, "[data-action=approve]", `[data-answered="${await urgent}"]`);
  },
};

const reject: Task = {
  name: "reject with a reason",
  async run({ page, rest }) {
    const urgent = mostUrgent(rest);
    await to(page, "escalations");
    await press(page, "[data-action=reject]", "[role=dialog] textarea[name=note]");
    await page.getByText("The amount or the recipient is wrong. Check it and ask again.").click();
    await page.click(CONFIRM);
    await page.waitForSelector(`[data-answered="${await urgent}"]`);
  },
};

const edit: Task = {
  name: "approve with another amount",
  async run({ page, rest }) {
    const id = await mostUrgent(rest, "payments.transfer");
    await to(page, "escalations");
    await page.locator(`.virtual [data-id="${id}"]`).getByText("payments.transfer").first().click();
    await page.waitForSelector(`#card-${id}`);
    await press(page, "[data-action=edit]", '[name="argument.amount"]');
    await page.fill('[name="argument.amount"]', "1500");
    await page.click("[data-action=review]");
    await page.click(CONFIRM);
    await page.waitForSelector(`[data-answered="${id}"]`);
  },
};

const whyBlocked: Task = {
  name: "why was an agent blocked yesterday",
  async run({ page, week }) {
    await to(page, "decisions");
    await page.fill("input[name=agent]", week.payer.name);
    await page.locator(`[role=option][data-id="${week.payer.agentId}"]`).click();
    await page.click("[data-action=preset-yesterday]");
    await page.selectOption("select[name=decision]", "block");
    await page.waitForFunction((agentName) => {
      const rows = [...document.querySelectorAll("[data-screen=decisions] li[data-id]")];
      return (
        rows.length > 0 && rows.every(({ textContent: text }) => text?.includes("block") && text.includes(agentName))
      );
    }, week.payer.name);
    await page.locator("[data-screen=decisions] li[data-id] a").first().click();
    await page.locator("[data-part=why]").waitFor();
  },
};

const textOf = (round: number, field: string): string => `name: Bank details ${round + 1}
rules:
  - tool: payments.transfer
    decision: block
    conditions:
      rules:
        - field: ${field}
          operator: "=="
          value: Unknown ${round + 1}
`;

const publish: Task = {
  name: "publish a mandate after mending its error",
  async run({ page, round }) {
    const write = async (text: string): Promise<void> => {
      await page.locator(".cm-content").click();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.insertText(text);
    };
    await to(page, "mandates");
    await page.click("[data-action=new]");
    await write(textOf(round, "recipent"));
    await page.locator(".text-faults li").first().waitFor();
    await write(textOf(round, "recipient"));
    await page.locator("[data-action=publish]:enabled").click();
    await page.click(CONFIRM);
    await page.waitForURL(/mandates\/mnd_/);
    await page.getByText("version 1", { exact: true }).waitFor();
  },
};

const revoke: Task = {
  name: "revoke an agent and see what ended",
  async prepare({ rest, round }) {
    const { agent } = await rest("POST /v1/enforce/agents", { name: `stray-bot ${round + 1}` });
    const { agent_id } = agent as { readonly agent_id: string };
    for (const purpose of ["invoices", "refunds"]) await rest("POST /v1/enforce/sessions", { agent_id, purpose });
  },
  async run({ page, round }) {
    const name = `stray-bot ${round + 1}`;
    await to(page, "agents");
    await page.fill("input[name=q]", name);
    await page.waitForFunction(() => document.querySelectorAll("[data-screen=agents] li[data-id^=agt_]").length === 1);
    await page.getByRole("link", { name }).first().click();
    await page.click("[data-action=revoke]");
    await page.waitForSelector("[data-preview]");
    await page.fill("[name=reason]", "it wandered off");
    await page.fill("[name=confirm]", name);
    await page.click(CONFIRM);
    await page.waitForSelector("[data-verified=true]");
  },
};

const nearlyFull: Task = {
  name: "find the nearly full limit",
  async run({ page, week }) {
    await to(page, "limits");
    await page.locator(`[data-id="${week.exporter.agentId}"]`, { hasText: "18 of 20" }).first().waitFor();
  },
};

const acceptDefinition: Task = {
  name: "accept a changed MCP definition",
  async prepare({ rest, upstream, round }) {
    upstream.tools = upstream.tools.map((each, index) =>
      index === round ? { ...each, description: `${each.description}, and tells who did` } : each,
    );
    await rest("POST /v1/enforce/mcp-servers/bank:refresh", {});
  },
  async run({ page, round }) {
    await to(page, "servers");
    await page.locator("[data-screen=servers]").getByRole("link", { name: "bank" }).first().click();
    await page.locator(`li[data-id="tool-${round}"] [data-action=look]`).click();
    await page.locator("[role=dialog] [data-action=accept]").click();
    await page.locator("[role=dialog] [data-accepted]", { hasText: "accepted by" }).waitFor();
    await page.locator("[role=dialog] [data-action=accept]").waitFor({ state: "detached" });
  },
};

/** Tasks of an approver's day, in the order in which they are done. */
export const TASKS: readonly Task[] = [
  approve,
  reject,
  edit,
  whyBlocked,
  publish,
  revoke,
  nearlyFull,
  acceptDefinition,
];
