import { join } from "node:path";
import { expect } from "chai";
import { type Browser, chromium, type Page } from "playwright-core";
import { build } from "vite";
import { BROWSER_FLAGS, CHROMIUM, describeInBrowser } from "../dashboard/browser.ts";
import { KEY, KEYED, TAMPERINGS, UNTOUCHED } from "../vault/tampering.ts";
import type { Verdict } from "./check-bundle.ts";

/** Builds the verifier as the dashboard is built, into one script that a page takes. */
async function scriptOf(entry: string): Promise<string> {
  const lib = { entry: join(import.meta.dirname, entry), formats: ["iife" as const], name: "verifier" };
  const built = await build({ configFile: false, logLevel: "error", build: { lib, write: false, target: "es2023" } });
  const [output] = Array.isArray(built) ? built : [built];
  if (output === undefined || !("output" in output)) throw new Error("nothing was built");
  return output.output[0].code;
}

interface Scope {
  readonly verifier: { checkBundle(text: string, pinned: string): Promise<Verdict> };
}

describeInBrowser("the verifier in a browser", () => {
  let browser: Browser;
  let page: Page;

  before(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: BROWSER_FLAGS });
    page = await browser.newPage();
    // Browsers give Web Crypto to secure pages alone.
    await page.route("https://verifier.example/", (route) => route.fulfill({ contentType: "text/html", body: "" }));
    await page.goto("https://verifier.example/");
    await page.addScriptTag({ content: await scriptOf("check-bundle.ts") });
  });
  after(() => browser?.close());

  const verdictOf = (text: string): Promise<Verdict> =>
    page.evaluate(([bundle, pinned]) => (globalThis as unknown as Scope).verifier.checkBundle(bundle, pinned), [
      text,
      KEY.publicPem,
    ] as const);

  it("verifies what nobody changed.", async () => {
    for (const text of [...UNTOUCHED, ...KEYED]) expect(await verdictOf(text)).to.deep.equal({ verified: true });
  });

  for (const { what, text, fault, index } of TAMPERINGS) {
    it(`refuses ${what}.`, async () => {
      expect(await verdictOf(text)).to.deep.equal({ verified: false, fault, index });
    });
  }
});
