import { readFile } from "node:fs/promises";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Page, Route } from "playwright-core";
import { GetDecisionResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { MandateService } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { GetInclusionProofResponseSchema } from "../../gen/agentcontrol/v1/vault_service_pb.js";
import { openBundle } from "../../src/cli/bundle.ts";
import { verifyCheckpoint } from "../../src/verify/checkpoint.ts";
import { verifyDecision } from "../../src/verify/decision.ts";
import { withClient } from "../support/database.ts";
import { ownedBy } from "../support/owned-key.ts";
import {
  APPEARANCES,
  assertAccessible,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const SCHEMA = {
  type: "object",
  properties: { amount: { type: "number" }, to: { type: "string" }, note: { type: "string" } },
  required: ["amount"],
};
const MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
const HOSTILE = `${MARKUP}\u202egnp.exe\u200b\u0007 שלום`;

describeInBrowser("the screen of a decision", () => {
  let dashboard: Dashboard;
  let agentId: string;

  const act = async (amount: number, more: object = {}, action_type = "payment.send"): Promise<string> => {
    const answer = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type,
      tool: "send_payment",
      action_content: HOSTILE,
      metadata: { arguments: { amount, to: HOSTILE, ...more }, [HOSTILE]: HOSTILE },
    });
    return answer.decision_id as unknown as string;
  };
  const open = async (id: string, appearance: object = {}): Promise<Page> => {
    const page = await dashboard.open(`/decisions/${id}`, appearance);
    await page.waitForSelector("[data-verdict]");
    return page;
  };

  before(async () => {
    dashboard = await openDashboard();
    const { rest } = dashboard.service;
    await rest("POST /v1/enforce/tools", { name: "send_payment", description: "pays", input_schema: SCHEMA });
    await rest("POST /v1/enforce/mandates", {
      name: "payments",
      rules: [
        {
          type: "argument",
          decision: "block",
          tool: "send_payment",
          conditions: { operator: "AND", rules: [{ field: "amount", operator: ">", value: 500 }] },
        },
        {
          type: "sequence",
          decision: "escalate",
          conditions: {
            mode: "velocity",
            max_count: 1000,
            window_seconds: 3600,
            scope: "workspace",
            match_action_types: ["payment.*"],
          },
        },
        {
          type: "sequence",
          decision: "escalate",
          conditions: { mode: "velocity", max_count: 3, window_seconds: 600, match_action_types: ["transfer.*"] },
        },
      ],
    });
    await rest("POST /v1/enforce/mandates", {
      name: "trial",
      mode: "observe",
      rules: [{ type: "action", decision: "block", conditions: { match_action_types: ["payment.*"] } }],
    });
    agentId = await dashboard.service.agent("payer");
  });
  after(() => dashboard.close());

  it("tells what was asked, what was decided, why, and what would have passed.", async () => {
    const page = await open(await act(900));
    const text = (await page.locator("[data-screen=decision]").innerText()).replaceAll(/\s+/g, " ");
    expect(text).to.contain("Agent payer asked to do payment.send with the tool send_payment.");
    expect(text).to.contain("It was blocked by a rule of the mandate payments.");
    expect(text).to.match(/The agent's trust went from 50 to 4\d(\.\d)?\./);
    expect(text).to.contain("argument amount");
    expect(text).to.contain("would allow at amount <= 500");
    expect(text).to.match(/1 of 1,000 within 1 h/);
    expect(text).to.contain("999 left");
    expect(text).to.contain("the workspace together (");
    expect(text).to.contain("would block");
    await page.locator("[data-verdict=holds]").waitFor();
    expect(await page.locator("[data-state=holds]").count()).to.equal(7);
    const sealed = await page.getByRole("region", { name: "Sealed text" }).locator(".mono").innerText();
    expect(sealed).to.contain('"action_type":"payment.send"');
  });

  it("tells the time first, then what, why and what would have passed, then the context, the proof and the raw facts.", async () => {
    const page = await open(await act(900), { width: 390 });
    const parts = await page
      .locator("[data-part]")
      .evaluateAll((elements) =>
        elements.map((element) => ({ part: element.getAttribute("data-part"), y: element.getBoundingClientRect().y })),
      );
    const names = ["time", "what", "why", "passes", "context", "proof", "facts"];
    expect(parts.map(({ part }) => part)).to.deep.equal(names);
    expect(parts.map(({ y }) => y)).to.deep.equal(parts.map(({ y }) => y).toSorted((a, b) => a - b));
    const time = await page.locator("[data-part=time]").innerText();
    expect(time).to.match(/^\w{3},? \d{1,2} \w{3,4} \d{4},? (at )?\d\d:\d\d:\d\d \S+/);
    expect(time).to.match(/now$|\d (s|min|h) ago$/);
    expect(await page.locator("[data-part=passes]").innerText()).to.contain("would allow at amount <= 500");
  });

  it("folds the proof to one line, which unfolds.", async () => {
    const page = await open(await act(900));
    const line = page.locator("[data-verdict=holds]");
    expect((await line.innerText()).replaceAll(/\s+/g, " ")).to.contain("proven, 7 of 7");
    const step = page.locator("[data-step=leaf]");
    expect(await step.isVisible()).to.equal(false);
    await page.locator("[data-action=show-proof]").focus();
    await page.keyboard.press("Enter");
    await step.waitFor();
    await page.click("[data-action=show-proof]");
    await step.waitFor({ state: "hidden" });
  });

  it("shows a completed sequence as a time line whose earlier steps lead to their decisions.", async () => {
    const { rest } = dashboard.service;
    await rest("POST /v1/enforce/mandates", {
      name: "no leaks",
      rules: [
        {
          type: "sequence",
          decision: "block",
          conditions: { mode: "ordered", steps: ["secret.read", "file.*", "http.post"], window_seconds: 600 },
        },
      ],
    });
    const otherId = await dashboard.service.agent("another");
    const types = ["secret.read", "note.write", "file.save", "secret.read", "file.load", "http.get"];
    const ids: Record<string, string> = {};
    for (const [index, type] of types.entries()) ids[`${index} ${type}`] = await act(1, {}, type);
    await rest("POST /v1/enforce/intercept", { agent_id: otherId, action_type: "file.other" });
    const last = await act(1, {}, "http.post");
    const page = await open(last);
    const steps = page.getByRole("region", { name: "Sequence", exact: true }).locator("[data-id]");
    await steps.nth(2).waitFor();
    const shown = await steps.evaluateAll((rows) => rows.map((row) => row.getAttribute("data-id")));
    expect(shown).to.deep.equal([ids["3 secret.read"], ids["4 file.load"], last]);
    await steps.first().getByRole("link", { name: "secret.read" }).click();
    await page.waitForURL(`**/decisions/${ids["3 secret.read"]}`);
    await page.goBack();
    await steps.nth(2).waitFor();
    await assertAccessible(page);
    await screenshot(page, "decision-sequence");
  });

  for (const { scope, expected } of [
    { scope: "workspace", expected: ["stranger", "stranger"] },
    { scope: "department", expected: ["colleague", "colleague"] },
  ]) {
    it(`names the agents that took the earlier steps of a sequence of the ${scope}.`, async () => {
      const { rest } = dashboard.service;
      const named: Record<string, string> = {};
      for (const name of ["last", "colleague", "stranger"]) named[name] = await dashboard.service.agent(name);
      const { department } = (await rest("POST /v1/enforce/departments", { name: `of ${scope}` })) as unknown as {
        readonly department: { readonly department_id: string };
      };
      for (const name of ["last", "colleague"]) {
        await rest(`PUT /v1/enforce/departments/${department.department_id}/members/${named[name]}`, {});
      }
      const types = ["take", "carry", "leave"].map((type) => `${type}.${scope}`);
      const conditions = { mode: "ordered", steps: types, window_seconds: 600, scope };
      await rest("POST /v1/enforce/mandates", {
        name: scope,
        rules: [{ type: "sequence", decision: "block", conditions }],
      });
      const attempt = async (name: string, action_type: string): Promise<string> => {
        const request = { agent_id: named[name], action_type };
        return (await rest("POST /v1/enforce/intercept", request)).decision_id as unknown as string;
      };
      for (const name of ["colleague", "stranger"]) for (const type of types.slice(0, 2)) await attempt(name, type);
      const page = await open(await attempt("last", types[2] ?? ""));
      const steps = page.getByRole("region", { name: "Sequence", exact: true }).locator("[data-id]");
      await steps.nth(2).waitFor();
      const texts = await steps.allInnerTexts();
      for (const [index, name] of expected.entries()) expect(texts[index]).to.contain(`by ${name}`);
    });
  }

  it("shows what happened before in the session, with the way to all of it.", async () => {
    const { rest } = dashboard.service;
    const { session } = (await rest("POST /v1/enforce/sessions", { agent_id: agentId, purpose: "May" })) as unknown as {
      readonly session: { readonly session_id: string };
    };
    const inSession = async (action_type: string): Promise<string> => {
      const request = { agent_id: agentId, action_type, session_id: session.session_id };
      return (await rest("POST /v1/enforce/intercept", request)).decision_id as unknown as string;
    };
    const ids: string[] = [];
    for (const type of ["read.a", "read.b"]) ids.push(await inSession(type));
    await act(1, {}, "read.outside");
    ids.push(await inSession("read.c"));
    await inSession("read.later");
    const page = await open(ids[2] ?? "");
    const region = page.getByRole("region", { name: "Session", exact: true });
    await region.locator("[data-id]").nth(2).waitFor();
    const shown = await region
      .locator("[data-id]")
      .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-id")));
    expect(shown).to.deep.equal(ids);
    await region.getByRole("link", { name: /all of this session/i }).click();
    await page.waitForURL(`**/decisions?session=${session.session_id}`);
  });

  it("shows what callers wrote as text alone, and a long one in parts.", async () => {
    const page = await open(await act(1, { long: "x".repeat(50_000) }));
    expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).to.equal(undefined);
    expect(await page.locator("[data-screen=decision] img, [data-screen=decision] script").count()).to.equal(0);
    await page.locator(".unseen", { hasText: "U+202E" }).first().waitFor();
    await page.locator(".unseen", { hasText: "U+200B" }).first().waitFor();
    await page
      .getByText(/more characters/)
      .first()
      .waitFor();
    await page.locator("[data-verdict=holds]").waitFor();
    const before = await page.evaluate(() => document.body.innerText.length);
    expect(before).to.be.below(12_000);
  });

  it("shows an argument of a megabyte in parts, and stays quick.", async () => {
    const page = await open(await act(1, { long: `<b>\u202e${"y".repeat(1_000_000)}` }));
    await page.locator("[data-verdict=holds]").waitFor();
    expect(await page.evaluate(() => document.body.innerText.length)).to.be.below(12_000);
    const more = page.getByText("more characters").first();
    expect(await more.innerText()).to.match(/998,\d\d\d more characters/);
    await more.click();
    await page.getByText(/978,\d\d\d more characters/).waitFor();
    expect(await page.locator("[data-screen=decision] b").count()).to.equal(0);
  });

  it("leads to the escalation.", async () => {
    for (let count = 0; count < 3; count++) await act(2, {}, "transfer.send");
    const page = await open(await act(2, {}, "transfer.send"));
    const link = page.locator('a[href^="/escalations/"]').first();
    expect(await link?.count()).to.equal(1);
    await page.getByText("exceeded", { exact: true }).waitFor();
  });

  it("tells who has to approve, and who did.", async () => {
    const { service } = dashboard;
    await service.rest("PUT /v1/enforce/approver-groups/finance", { members: ["Ada", "Ben"] });
    await service.rest("POST /v1/enforce/mandates", {
      name: "large orders",
      rules: [
        {
          type: "action",
          decision: "escalate",
          conditions: { match_action_types: ["order.large"] },
          approvers: { groups: ["finance"], at_least: 2 },
        },
      ],
    });
    const decisionId = await act(1, {}, "order.large");
    const { decision } = await service.rest(`GET /v1/enforce/decisions/${decisionId}`);
    const { escalation_id: id } = decision as unknown as { escalation_id: string };
    const approve = async (owner: string): Promise<unknown> =>
      (await ownedBy(owner, service))(`POST /v1/enforce/escalations/${id}/resolve`, { resolution: "approved" });
    await approve("Ada");
    const page = await open(decisionId);
    const told = page.locator("[data-part=what]");
    await told.getByText("Its rules ask 2 of finance to approve.").waitFor();
    await told.getByText("Approved by Ada (finance): 1 of 2 of finance.").waitFor();
    await approve("Ben");
    await page.reload();
    await told.getByText("Approved by Ada (finance) and Ben (finance): 2 of 2 of finance.").waitFor();
  });

  it("shows whose actions a limit counts, the agent's and those on behalf of its principal.", async () => {
    const principal = await dashboard.service.agent("principal");
    const grant = { grantor_agent_id: principal, grantee_agent_id: agentId, action_types: ["transfer.*"] };
    await dashboard.service.rest("POST /v1/enforce/grants", grant);
    const request = { agent_id: agentId, action_type: "transfer.send", on_behalf_of: principal };
    const { decision_id } = await dashboard.service.rest("POST /v1/enforce/intercept", request);
    const page = await open(decision_id as unknown as string);
    const bars = page.locator('[data-limit="rules[2]"]');
    await bars.nth(1).waitFor();
    const texts = (await bars.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "));
    expect(texts).to.have.length(2);
    expect(texts[0]).to.match(/^\d+ of 3 within 10 min .* Counts this agent, by rules\[2\]/);
    expect(texts[1]).to.match(new RegExp(`^1 of 3 within 10 min .* Counts the principal ${principal}, by rules`));
  });

  it("gives the sealed text and a proof that agentctl verifies.", async () => {
    const id = await act(700);
    const page = await open(id);
    const [sealed] = await Promise.all([page.waitForEvent("download"), page.click("[data-action=download]")]);
    const { receipt } = (await dashboard.service.rest(`GET /v1/enforce/decisions/${id}`)) as unknown as {
      readonly receipt: { readonly canonical_body: string };
    };
    expect(await readFile(await sealed.path(), "utf8")).to.equal(receipt.canonical_body);
    const [proof] = await Promise.all([page.waitForEvent("download"), page.click("[data-action=download-proof]")]);
    const bundle = await openBundle(await proof.path());
    if (bundle.kind !== "decision") throw new Error("another bundle");
    const checkpoint = await verifyCheckpoint(bundle.checkpoint, bundle.publicKeys);
    expect((await verifyDecision(bundle.proof, checkpoint)).decision_id).to.equal(id);
  });

  /** Opens a decision whose answers come changed. */
  async function tampered(id: string, method: string, change: (body: Buffer) => Uint8Array | Buffer): Promise<Page> {
    const page = await dashboard.open("/overview");
    await page.waitForSelector("[data-screen=overview]");
    await page.route(`**/${method}`, async (route: Route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: Buffer.from(change(await response.body())) });
    });
    await page.evaluate((path) => history.pushState(null, "", path), `/decisions/${id}`);
    await page.waitForSelector("[data-verdict]");
    return page;
  }
  const failed = async (page: Page): Promise<string | null> => {
    const step = await page.locator("[data-verdict=fails]").getAttribute("data-failed-step");
    const alerts = page.getByRole("alert").filter({ hasText: `step “${step}” does not hold` });
    await alerts.first().waitFor();
    // A failed proof is unfolded, so that the fault is read without a press.
    await page.locator(`[data-step=${step}][data-state=fails]`).waitFor();
    await page.context().close();
    return step;
  };

  it("refuses an answer in which one byte was changed, and names the step.", async () => {
    const id = await act(800);
    const flip = (needle: string) => (body: Buffer) => {
      const at = body.lastIndexOf(needle);
      expect(at).to.be.above(0);
      body[at] = (body[at] ?? 0) ^ 1;
      return body;
    };
    expect(await failed(await tampered(id, "GetDecision", flip("payment.send")))).to.equal("answer");
    const bodyOnly = (body: Buffer): Uint8Array => {
      const message = fromBinary(GetDecisionResponseSchema, body);
      if (message.receipt !== undefined)
        message.receipt.canonicalBody = message.receipt.canonicalBody.replace('"to"', '"tp"');
      return toBinary(GetDecisionResponseSchema, message);
    };
    expect(await failed(await tampered(id, "GetDecision", bodyOnly))).to.equal("answer");
    const proof = (change: (message: ReturnType<typeof decoded>) => void) => (body: Buffer) => {
      const message = decoded(body);
      change(message);
      return toBinary(GetInclusionProofResponseSchema, message);
    };
    const decoded = (body: Buffer) => fromBinary(GetInclusionProofResponseSchema, body);
    const path = proof(({ auditPath }) => {
      const [first] = auditPath;
      if (first !== undefined) first[3] = (first[3] ?? 0) ^ 1;
    });
    expect(await failed(await tampered(id, "GetInclusionProof", path))).to.equal("path");
    const note = proof(({ checkpoint }) => {
      if (checkpoint !== undefined)
        checkpoint.note = checkpoint.note.replace(/.(?==*\n$)/, (last) => (last === "A" ? "B" : "A"));
    });
    expect(await failed(await tampered(id, "GetInclusionProof", note))).to.be.oneOf(["checkpoint", "signature"]);
    const otherKey = () => Buffer.from(JSON.stringify({ keys: [] }));
    expect(await failed(await tampered(id, "jwks.json", otherKey))).to.equal("signature");
  });

  it("probes the same action again under the rules of now.", async () => {
    const id = await act(600);
    const page = await open(id);
    await page.click("[data-action=probe]");
    await page.waitForSelector("[data-probe=block]");
    await page.getByText("as it was then").waitFor();
    await page.waitForSelector("[data-fires=true] [data-holds=true]");
    await page.waitForSelector("[data-nearest=amount]");
    const { admin } = dashboard.service;
    const { mandates } = await admin.client(MandateService).listMandates({});
    const payments = mandates.find(({ name }) => name === "payments")?.mandateId ?? "";
    await admin.client(MandateService).archiveMandate({ mandateId: payments });
    await page.click("[data-action=probe]");
    await page.waitForSelector("[data-probe=allow]");
    await page.getByText("and was block then").waitFor();
  });

  it("says that there is no such decision.", async () => {
    const page = await dashboard.open("/decisions/dec_none");
    await page.getByText(/no decision `?dec_none`?/).waitFor();
  });

  it("says in place of the receipt that somebody changed the entry in the database.", async () => {
    const id = await act(700);
    await withClient(dashboard.service.database.ownerUrl, async (client) => {
      await client.query("alter table ledger_entry disable trigger all");
      await client.query("update ledger_entry set body = replace(body, '700', '7') where entry_id = $1", [id]);
    });
    const page = await dashboard.open(`/decisions/${id}`);
    await page.getByRole("alert").waitFor();
    const text = await page.locator("[data-screen=decision]").innerText();
    expect(text).to.match(/entry \d+ of the log of `?default`? does not hash to its leaf/);
    expect(text).not.to.contain("payment.send");
    expect(await page.locator("[data-verdict]").count()).to.equal(0);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await open(await act(650), appearance);
      await page.click("[data-action=probe]");
      await page.waitForSelector("[data-probe]");
      await assertAccessible(page);
      await page.evaluate(() => document.getElementById("content")?.scrollTo(0, 0));
      await screenshot(page, `decision-${name}`);
    });
  }
});
