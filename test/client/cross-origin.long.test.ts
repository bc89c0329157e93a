import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { type Browser, chromium } from "playwright-core";
import { build } from "vite";
import { BROWSER_FLAGS, CHROMIUM, describeInBrowser } from "../dashboard/browser.ts";
import { startService, type TestService } from "../support/service.ts";

const CLIENT = join(import.meta.dirname, "../../src/client/index.ts");

/** Builds the client library for browsers. Returns its files by their paths. */
async function builtClient(): Promise<ReadonlyMap<string, string>> {
  const built = await build({
    configFile: false,
    logLevel: "error",
    build: { write: false, minify: true, lib: { entry: CLIENT, formats: ["es"], fileName: "client" } },
  });
  const files = [built].flat().flatMap((bundle) => ("output" in bundle ? bundle.output : []));
  return new Map(files.flatMap((file) => (file.type === "chunk" ? [[`/${file.fileName}`, file.code] as const] : [])));
}

describeInBrowser("a page of another origin", () => {
  let pages: Server;
  let service: TestService;
  let browser: Browser;
  let port: number;

  before(async () => {
    const client = await builtClient();
    pages = createServer((request, response) => {
      const script = client.get(request.url ?? "");
      response.setHeader("content-type", script === undefined ? "text/html" : "text/javascript");
      response.end(script ?? "<!doctype html><title>page</title>");
    });
    await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
    ({ port } = pages.address() as AddressInfo);
    service = await startService({ env: { ACP_CORS_ORIGINS: `http://127.0.0.1:${port}` } });
    browser = await chromium.launch({ executablePath: CHROMIUM, args: BROWSER_FLAGS });
  });
  after(async () => {
    await browser?.close();
    await service?.stop();
    pages?.close();
  });

  /** Has an action decided with the client library in a page of an origin: the decision, or the code of the error. */
  async function interceptFrom(origin: string): Promise<string> {
    const page = await browser.newPage();
    try {
      await page.goto(`${origin}/`);
      const asked = { baseUrl: service.http, apiKey: service.adminKey, agentId: await service.agent() };
      return await page.evaluate(async ({ baseUrl, apiKey, agentId }) => {
        const path = "/client.js";
        const { createControlPlane } = await import(path);
        const controlPlane = createControlPlane({ baseUrl, apiKey });
        try {
          const decided = await controlPlane.intercept({ agentId, actionType: "page.read" });
          return String(decided.decision);
        } catch (error) {
          return `refused: ${(error as { code?: string }).code}`;
        }
      }, asked);
    } finally {
      await page.close();
    }
  }

  it("has an action decided with the client library if its origin is listed.", async () => {
    expect(await interceptFrom(`http://127.0.0.1:${port}`)).to.equal("allow");
  });

  it("is refused by the browser if its origin is another.", async () => {
    expect(await interceptFrom(`http://localhost:${port}`)).to.match(/^refused: /);
  });
});
