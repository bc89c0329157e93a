import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Page, Route } from "playwright-core";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import {
  type GetRevocationResponse,
  GetRevocationResponseSchema,
  RevocationService,
} from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import {
  APPEARANCES,
  assertAccessible,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";
import { equippedAgent, RULES } from "./equipped-agent.ts";

const AGENTCTL = join(import.meta.dirname, "..", "..", "src", "cli", "agentctl.ts");

describeInBrowser("revoking an agent in the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard({ rules: RULES });
  });
  after(() => dashboard.close());

  const open = async (path: string, options = {}): Promise<Page> => {
    const page = await dashboard.open(path, options);
    await page.waitForSelector("[data-screen=agent] [data-status]");
    return page;
  };
  const revoke = async (page: Page, word: string): Promise<void> => {
    await page.click("[data-action=revoke]");
    await page.waitForSelector("[data-preview]");
    await page.fill("[name=reason]", "it sent secrets");
    await page.fill("[name=confirm]", word);
    await page.click("[role=dialog] [data-action=confirm]");
    await page.waitForSelector("[data-certificate]");
  };

  it("revokes with a preview of all that ends, and verifies the certificate here and offline.", async () => {
    const agentId = await equippedAgent(dashboard.service, "Mata");
    const page = await open(`/agents/${agentId}`);
    await page.click("[data-action=revoke]");
    await page.waitForSelector("[data-preview] [data-id=escalations]");
    const previewed = await page
      .locator("[data-preview] [data-count]")
      .evaluateAll((all) => all.map(({ dataset }) => [dataset.id ?? "", Number(dataset.count)] as const));
    await page.locator("[data-preview] summary", { hasText: "session" }).click();
    await page.getByText("invoices of May").waitFor();
    const confirm = page.locator("[role=dialog] [data-action=confirm]");
    await page.fill("[name=confirm]", "mata");
    expect(await confirm.isDisabled()).to.equal(true);
    await page.fill("[name=confirm]", "Mata");
    await page.fill("[name=reason]", "it sent <b>secrets</b>");
    await confirm.click();
    await page.waitForSelector("[data-certificate]");
    await page.locator("[data-status]").getByText("revoked").waitFor();
    const revocationId = (await page.locator("[data-certificate]").getAttribute("data-certificate")) ?? "";
    const { certificate } = await dashboard.service.admin.client(RevocationService).getRevocation({ revocationId });
    expect(certificate?.reason).to.equal("it sent <b>secrets</b>");
    const { counts } = JSON.parse(certificate?.canonicalBody ?? "") as { counts: Record<string, number> };
    expect(Object.fromEntries(previewed.filter(([kind]) => kind !== "escalations"))).to.deep.equal(counts);
    expect(Object.values(counts).every((count) => count > 0)).to.equal(true);
    await page.waitForSelector("[data-verified=true]");
    expect(await page.evaluate(() => document.activeElement?.hasAttribute("data-certificate"))).to.equal(true);

    const folder = await mkdtemp(join(tmpdir(), "acp-certificate-"));
    try {
      const [download] = await Promise.all([page.waitForEvent("download"), page.click("[data-action=download]")]);
      expect(download.suggestedFilename()).to.equal(`${revocationId}.json`);
      const file = join(folder, `${revocationId}.json`);
      await download.saveAs(file);
      expect(JSON.parse(await readFile(file, "utf8"))).to.include({ revocation_id: revocationId });
      await page.getByText("Check it offline with openssl").click();
      const commands = await page.locator("[data-commands]").innerText();
      const printed = execFileSync("sh", ["-ec", commands], { cwd: folder, encoding: "utf8" });
      expect(printed.trim()).to.equal("Verified OK");
      const args = [AGENTCTL, "certificate", "verify", file];
      expect(execFileSync(process.execPath, args, { encoding: "utf8" })).to.contain(
        `VERIFIED: revocation ${revocationId}`,
      );
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    await page.reload();
    await page.waitForSelector("[data-verified=true]");
  });

  it("refuses a certificate that was tampered with, and says what is wrong.", async () => {
    const agentId = await equippedAgent(dashboard.service, "Mallory");
    await dashboard.service.admin.client(RevocationService).revokeAgent({ agentId, reason: "test" });
    type Change = (answer: GetRevocationResponse) => void;
    const inBody =
      (from: string, to: string): Change =>
      ({ certificate }) => {
        if (certificate !== undefined) certificate.canonicalBody = certificate.canonicalBody.replace(from, to);
      };
    const CASES: readonly { readonly step: string; readonly change: Change }[] = [
      { step: "content", change: ({ certificate }) => Object.assign(certificate ?? {}, { reason: "another" }) },
      { step: "signature", change: inBody('"reason":"test"', '"reason":"lies"') },
      { step: "canonical", change: inBody('"reason":', '"reason": ') },
      { step: "key", change: inBody('"key_id":"', '"key_id":"x') },
      {
        step: "signature",
        change: ({ certificate }) => Object.assign(certificate ?? {}, { signature: "MAYCAQECAQE=" }),
      },
      { step: "service", change: (answer) => Object.assign(answer, { signatureValid: false }) },
    ];
    const context = (await dashboard.open("/agents")).context();
    for (const { step, change } of CASES) {
      const page = await context.newPage();
      await page.route("**/*RevocationService/GetRevocation", async (route: Route) => {
        const response = await route.fetch();
        const answer = fromBinary(GetRevocationResponseSchema, await response.body());
        change(answer);
        await route.fulfill({ response, body: Buffer.from(toBinary(GetRevocationResponseSchema, answer)) });
      });
      await page.goto(`/agents/${agentId}`);
      await page.waitForSelector("[data-verified=false]");
      await page.waitForSelector(`[data-certificate] [data-id=${step}][data-state=fails]`);
      await page.getByText("Do not rely on this certificate.").waitFor();
      await page.close();
    }
  });

  it("asks for the id of an agent whose name nobody can type.", async () => {
    const { agent } = await dashboard.service.admin.client(AgentService).registerAgent({ name: "b\u00a0ad <i>x</i>" });
    const agentId = agent?.agentId ?? "";
    const page = await open(`/agents/${agentId}`);
    expect(await page.locator("h1").innerText()).to.equal("b[U+00A0]ad <i>x</i>");
    await revoke(page, agentId);
    await page.waitForSelector("[data-verified=true]");
    expect(await page.locator("main i").count()).to.equal(0);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await open(`/agents/${await equippedAgent(dashboard.service, `Nora ${name}`)}`, appearance);
      await page.click("[data-action=revoke]");
      await page.waitForSelector("[data-preview] [data-id=sessions]");
      await assertAccessible(page);
      await screenshot(page, `agent-revoke-${name}`);
      await page.keyboard.press("Escape");
      await revoke(page, `Nora ${name}`);
      await page.waitForSelector("[data-verified=true]");
      await page.getByText("Check it offline with openssl").click();
      await assertAccessible(page);
      await assertFits(page);
      // It acted once: figures say it, and a chart of one point would be empty.
      await page.locator("[data-trust]").waitFor();
      expect(await page.locator(".chart").count()).to.equal(0);
      await screenshot(page, `agent-revoked-${name}`);
    });
  }
});
