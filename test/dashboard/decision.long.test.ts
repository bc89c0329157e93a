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
