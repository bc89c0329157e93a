import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { docsRoute } from "../../src/server/docs/docs-route.ts";
import { addressOf, GUIDES, readGuide } from "../../src/server/docs/guides.ts";
import { renderMarkdown } from "../../src/server/docs/markdown.ts";
import { openApiFromServices } from "../../src/server/rest/openapi.ts";
import { REASON_WORDS } from "../../src/server/rest/openapi-errors.ts";
import { SERVICES } from "../conformance/methods.ts";
import {
  APPEARANCES,
  assertAccessible,
  assertFits,
  BROWSER_FLAGS,
  CHROMIUM,
  describeInBrowser,
} from "../dashboard/browser.ts";
import { type Harness, startHarness } from "./harness.ts";

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly html: string;
}

const DOCUMENT = { title: "Plane", version: "v1" };

const described = await openApiFromServices(SERVICES, DOCUMENT);

describe("the documentation", () => {
  const paths = [
    "/docs",
    "/docs/reference",
    "/docs/schemas",
    "/docs/search?q=trust",
    ...GUIDES.map(({ slug }) => `/docs/guides/${slug}`),
    ...described.tags.map(({ name }) => `/docs/reference/${name}`),
  ];
  let harness: Harness;
  before(async () => {
    harness = await startHarness({ http: { extra: [docsRoute(described)] } });
  });
  after(() => harness.stop());

  async function get(path: string, init: RequestInit = {}): Promise<Answer> {
    const response = await fetch(harness.url(path), init);
    return { status: response.status, headers: response.headers, html: await response.text() };
  }

  /** Returns what a page finds for a query, best first. */
  async function found(query: string): Promise<string[]> {
    const { html } = await get(`/docs/search?q=${encodeURIComponent(query)}`);
    return [...html.matchAll(/<li><a href="([^"]+)">[^<]*<\/a> <span/g)].map(([, url = ""]) => url);
  }

  it("has one script, a file of its own, and its policy admits nothing within a page or from another host.", async () => {
    for (const path of paths) {
      const { status, headers, html } = await get(path);
      expect(status, path).to.equal(200);
      expect(headers.get("content-type")).to.equal("text/html; charset=utf-8");
      const policy = headers.get("content-security-policy");
      expect(policy).to.include("default-src 'none'; script-src 'self'; style-src 'self';").and.not.include("unsafe");
      expect(html).not.to.match(
        /<script(?! src="\/docs\/page\.js" defer><\/script>)|\son\w+=|javascript:|<style|\sstyle=/i,
      );
      const loaded = [...html.matchAll(/<(?:link|img|source|iframe|script)[^>]+(?:href|src)="([^"]*)"/g)].map(
        ([, url]) => url,
      );
      expect([...new Set(loaded)]).to.deep.equal(["data:,", "/docs/style.css", "/docs/page.js"]);
    }
    expect((await get("/docs/page.js")).headers.get("content-type")).to.equal("text/javascript; charset=utf-8");
    expect((await get("/docs/style.css")).headers.get("content-type")).to.equal("text/css; charset=utf-8");
  });

  it("has no link inside that leads nowhere.", async () => {
    const pages = new Map<string, string>();
    for (const path of paths) pages.set(path, (await get(path)).html);
    const broken = [...pages].flatMap(([path, html]) =>
      [...html.matchAll(/<a [^>]*href="((?:\/docs[^"#]*)?)(?:#([^"]*))?"/g)].flatMap(([link, target = "", anchor]) => {
        const to = pages.get(target === "" ? path : target);
        if (to === undefined) return [`${path}: ${link}`];
        return anchor === undefined || to.includes(`id="${anchor}"`) ? [] : [`${path}: ${link}`];
      }),
    );
    expect(broken).to.deep.equal([]);
  });

  it("gives every heading below the title an anchor of its own, which it links to.", async () => {
    for (const path of paths.filter((each) => !each.includes("search"))) {
      const { html } = await get(path);
      const [, main = ""] = /<main id="page-content">([\s\S]*)<\/main>/.exec(html) ?? [];
      const ids = [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
      expect(new Set(ids).size, path).to.equal(ids.length);
      for (const [heading, id] of main.matchAll(/<h[2-6](?: id="([^"]*)")?>[\s\S]*?<\/h[2-6]>/g)) {
        expect(id, `${path}: ${heading}`).to.be.a("string");
        expect(heading, path).to.include(`<a class="anchor" href="#${id}"`);
      }
    }
  });

  it("leads from each page to the next, through all of them, and back.", async () => {
    const next = /<a rel="next" href="([^"]*)"/;
    const previous = /<a rel="prev" href="([^"]*)"/;
    const read: string[] = [];
    for (let path: string | undefined = "/docs"; path !== undefined; ) {
      const { html } = await get(path);
      expect(previous.exec(html)?.[1], path).to.equal(read.at(-1));
      read.push(path);
      path = next.exec(html)?.[1];
    }
    expect(read).to.have.members(paths.filter((each) => !each.includes("search")));
    expect(read.indexOf("/docs/guides/operators")).to.equal(read.indexOf("/docs/guides/mandates") + 1);
  });

  it("shows the changes of every version.", async () => {
    const { html } = await get("/docs/guides/changelog");
    expect(html)
      .to.include("Unreleased")
      .and.include('<h3 id="deciding">')
      .and.include('<a href="#deciding">Deciding</a>');
    expect((await get("/docs")).html).to.include('href="/docs/guides/changelog"');
  });

  it("describes every call with its fields, an example and its errors.", async () => {
    const { html } = await get("/docs/reference/EnforcementService");
    expect(html).to.include('id="EnforcementService_Intercept"').and.include("<code>/v1/enforce/intercept</code>");
    expect(html).to.include("The agent that acts.");
    expect(textOf(html)).to.include('curl -X POST "$URL/v1/enforce/intercept"');
    expect(html).to.include('href="/docs/guides/errors#agent_not_found"').and.include('href="/docs/schemas#Decision"');
    const { html: overview } = await get("/docs/reference");
    for (const path of Object.keys(described.paths)) expect(overview).to.include(`<code>${path}</code>`);
  });

  it("finds guides, calls and reasons.", async () => {
    expect((await found("subset_of"))[0]).to.equal("/docs/guides/operators#subset_of");
    expect(await found("deny by default")).to.include("/docs/guides/deciding#deny-by-default");
    expect(await found("ResolveEscalation")).to.include(
      "/docs/reference/EscalationService#EscalationService_ResolveEscalation",
    );
    expect((await found("ACP_POOL_SIZE"))[0]).to.equal("/docs/guides/configuration#acp_pool_size");
    for (const word of REASON_WORDS) {
      expect((await found(word)).slice(0, 5), word).to.include(`/docs/guides/errors#${word.toLowerCase()}`);
    }
    expect((await found("escalatoin"))[0], "a word with a slip").to.match(/escalation/i);
  });

  it("finds a topic first where its guide explains it, in any form of its word.", async () => {
    const first = {
      kubernetes: "deploying#kubernetes-and-helm",
      docker: "deploying#docker-and-other-container-engines",
      escalation: "escalations#escalations",
      escalate: "escalations#escalations",
      metrics: "metrics#metrics-for-prometheus",
      prometheus: "metrics#metrics-for-prometheus",
      backup: "deployment#backup",
      backups: "deployment#backup",
      rotate: "rotating-keys#rotating-keys",
      "key rotation": "rotating-keys#rotating-keys",
      webhook: "webhooks#webhooks",
      "Revoke an agent": "revocation#revoking-an-agent",
    };
    for (const [query, guide] of Object.entries(first)) {
      expect((await found(query))[0], query).to.equal(`/docs/guides/${guide}`);
    }
    expect((await get("/docs/search?q=rotate")).html)
      .to.include("<mark>Rotate</mark>")
      .and.include("<mark>rotated</mark>");
  });

  it("finds the example of an expression by the words that people use for it.", async () => {
    const words = {
      unless: "unless-somebody-has-approved",
      "only if": "only-if-the-agent-is-little-trusted",
      total: "total-of-an-order-above-a-limit",
      country: "country-of-a-recipient",
      quantity: "quantity-of-a-line-above-a-limit",
      discount: "discount-against-a-list-price",
      currency: "limit-for-each-currency",
      "outside our domains": "mail-to-an-address-outside-our-domains",
      "list of hosts": "urls-outside-a-list-of-hosts",
      "paths outside": "paths-outside-the-workspace",
      "within 24 hours": "only-within-24-hours-unless-insured",
      "older than 30 days": "only-what-is-older-than-30-days",
      "business hours": "at-night-outside-business-hours",
      night: "at-night-outside-business-hours",
      overlap: "dates-that-overlap",
      optional: "nested-and-optional-members",
      "test accounts": "test-accounts-only",
      exception: "exception-for-a-department",
      sql: "sql-that-only-reads-a-speed-bump",
      "must agree": "two-members-that-must-agree",
      "outside a list": "value-outside-a-list",
    };
    const { html } = await get("/docs/guides/expressions");
    for (const [query, anchor] of Object.entries(words)) {
      expect(html, anchor).to.include(`<tr id="${anchor}">`);
      expect((await found(query)).slice(0, 3), query).to.include(`/docs/guides/expressions#${anchor}`);
    }
    for (const query of ["unless", "only if", "total", "country"]) {
      expect((await found(query))[0], query).to.match(/^\/docs\/guides\/expressions#/);
    }
  });

  it("shows every block of code as it is written, commands without a prompt or a placeholder.", async () => {
    for (const guide of GUIDES) {
      const { html } = await get(`/docs/guides/${guide.slug}`);
      const shown = [...html.matchAll(/<div class="code"><pre tabindex="0"><code>([\s\S]*?)<\/code><\/pre><\/div>/g)];
      const written = [...(await readGuide(guide)).matchAll(/^```(\w*)\n([\s\S]*?)\n```$/gm)];
      expect(
        shown.map(([, code = ""]) => textOf(code)),
        guide.path,
      ).to.deep.equal(written.map(([, , code]) => code));
      const commands = written.filter(([, language]) => language === "sh").map(([, , code = ""]) => code);
      expect(
        commands.filter((code) => /^[$>%] |<[a-z_ ]+>/m.test(code)),
        guide.path,
      ).to.deep.equal([]);
    }
  });

  it("shows a query as text, whatever it holds, and reads only its beginning.", async () => {
    const { html } = await get(`/docs/search?q=${encodeURIComponent('"><script>alert(1)</script>')}`);
    expect(html).to.include("&quot;&gt;&lt;script&gt;").and.not.include("<script>");
    expect(html.match(/<script/g)).to.have.length(1);
    expect((await get(`/docs/search?q=${"a ".repeat(4_000)}`)).status).to.equal(200);
    expect((await get("/docs/search")).html).to.include("Nothing found");
    expect((await get("/docs/search?q=(((*")).status).to.equal(200);
  });

  it("answers other methods and unknown pages with errors.", async () => {
    expect((await get("/docs", { method: "POST" })).status).to.equal(405);
    expect((await get("/docs/guides/nothing")).status).to.equal(404);
    expect((await get("/docs/guides/..%2Fserver")).status).to.equal(404);
    expect((await get("/docs/reference/NoService")).status).to.equal(404);
  });
});

/** Returns the text of HTML without entities but those of escapes. */
const textOf = (html: string): string =>
  html
    .replace(/<[^>]*>/g, "")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&amp;", "&");

describeInBrowser("the documentation in a browser", () => {
  let harness: Harness;
  let browser: Browser;
  before(async () => {
    harness = await startHarness({ http: { extra: [docsRoute(described)] } });
    browser = await chromium.launch({ executablePath: CHROMIUM, args: BROWSER_FLAGS });
  });
  after(async () => {
    await browser?.close();
    await harness?.stop();
  });

  /** Runs a test on pages of a browser context, and asserts that the policy refused nothing of them. */
  async function onPage(options: BrowserContextOptions, test: (page: Page) => Promise<void>): Promise<void> {
    const context = await browser.newContext({ baseURL: harness.url("/"), ...options });
    try {
      const page = await context.newPage();
      const refused: string[] = [];
      page.on("console", (message) => refused.push(message.text()));
      page.on("pageerror", (error) => refused.push(String(error)));
      await test(page);
      expect(refused).to.deep.equal([]);
    } finally {
      await context.close();
    }
  }

  it("has a button at each block of code that copies it, exactly.", async () => {
    await onPage({ permissions: ["clipboard-read", "clipboard-write"] }, async (page) => {
      for (const path of ["/docs/guides/start", "/docs/guides/log", "/docs/reference/EnforcementService"]) {
        await page.goto(path);
        const blocks = page.locator("main pre");
        expect(await page.locator("main .code:has(pre) > button.copy").count(), path).to.equal(await blocks.count());
      }
      await page.goto("/docs/guides/start");
      const block = page.locator(".code", { hasText: "AGENT=$(curl" });
      await block.getByRole("button", { name: "Copy" }).click();
      await block.getByRole("button", { name: "Copied" }).waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      const readme = await readFile(join(import.meta.dirname, "../../README.md"), "utf8");
      expect(copied).to.match(/^URL=http[\s\S]*ACME"\}'$/);
      expect(readme).to.include(`\`\`\`sh\n${copied}\n\`\`\`\n`);
    });
  });

  it("copies also where the browser gives the page no clipboard.", async () => {
    await onPage({ permissions: ["clipboard-read", "clipboard-write"] }, async (page) => {
      await page.addInitScript(() => {
        const clipboard = navigator.clipboard;
        Object.defineProperty(navigator, "clipboard", { value: undefined });
        Object.assign(globalThis, { clipboard });
      });
      await page.goto("/docs/guides/log");
      const block = page.locator(".code").first();
      await block.getByRole("button", { name: "Copy" }).click();
      await block.getByRole("button", { name: "Copied" }).waitFor();
      const copied = await page.evaluate(() =>
        (globalThis as unknown as { clipboard: Clipboard }).clipboard.readText(),
      );
      expect(copied).to.equal(await block.locator("code").textContent());
    });
  });

  it("runs nothing that a query brings.", async () => {
    await onPage({}, async (page) => {
      const query = `"><img src=x onerror="window.hit=1"><script>window.hit=1</script>'--></mark>`;
      await page.goto(`/docs/search?q=${encodeURIComponent(query)}`);
      expect(await page.locator("main img, main script").count()).to.equal(0);
      expect(await page.inputValue("input[name=q]")).to.equal(query);
      expect(await page.evaluate(() => Object.hasOwn(window, "hit"))).to.equal(false);
    });
  });

  for (const colorScheme of ["light", "dark"] as const) {
    it(`shows code in colours that can be read (${colorScheme}).`, async () => {
      await onPage({ colorScheme }, async (page) => {
        const seen = new Set<string>();
        for (const slug of ["client", "deploying", "interfaces", "mandates", "python"]) {
          await page.goto(`/docs/guides/${slug}`);
          for (const { name, colour, ground } of await page.evaluate(coloursOfCode)) {
            seen.add(name);
            expect(contrast(colour, ground), `${name}: ${colour} on ${ground}`).to.be.at.least(4.5);
          }
        }
        expect([...seen].sort()).to.deep.equal(["", "c", "k", "n", "s", "v"]);
      });
    });
  }

  for (const { name, colorScheme, width } of APPEARANCES) {
    it(`is accessible and fits (${name}).`, async () => {
      await onPage({ colorScheme, viewport: { width, height: 900 } }, async (page) => {
        for (const path of ["/docs", "/docs/guides/client", "/docs/search?q=rotate"]) {
          await page.goto(path);
          await assertAccessible(page);
          await assertFits(page);
        }
      });
    });
  }
});

interface Colours {
  /** Class of the token, or nothing for plain code. */
  readonly name: string;
  readonly colour: string;
  readonly ground: string;
}

/** Returns the colours of each kind of token on a page, in the browser. */
function coloursOfCode(): Colours[] {
  const tokens = [...document.querySelectorAll(".code code, .code code span")];
  const first = new Map(tokens.map((token) => [token.className, token]));
  return [...first].map(([name, token]) => {
    const block = token.closest("pre") ?? document.body;
    return { name, colour: getComputedStyle(token).color, ground: getComputedStyle(block).backgroundColor };
  });
}

/** Returns the contrast ratio of two colours as WCAG 2.2 defines it. */
function contrast(one: string, other: string): number {
  const [lighter = 0, darker = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (lighter + 0.05) / (darker + 0.05);
}

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = (colour.match(/\d+/g) ?? []).map((text) => {
    const share = Number(text) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

describe("renderMarkdown", () => {
  const render = (text: string) =>
    renderMarkdown(text, (link) => (link.startsWith("known") ? "/docs/known" : undefined));

  it("shows HTML as text, and leaves comments out.", () => {
    const { html } = render("<b>bold</b>\n\n<!-- run -->\n\n<img src=x onerror=alert(1)>");
    expect(html).to.equal("<p>&lt;b&gt;bold&lt;/b&gt;</p>\n<p>&lt;img src=x onerror=alert(1)&gt;</p>\n");
  });

  it("points links where they are served, and drops others but their text.", () => {
    expect(render("[a](known.md) [b](other.ts) [c](javascript:alert(1))").html).to.equal(
      '<p><a href="/docs/known">a</a> b [c](javascript:alert(1))</p>\n',
    );
    const guide = { slug: "x", title: "X", path: "src/policy/GUIDE.md" };
    expect(addressOf("../log/GUIDE.md#the-vault", guide)).to.equal("/docs/guides/log#the-vault");
    expect(addressOf("../../README.md", guide)).to.equal("/docs/guides/start");
    expect(addressOf("evaluate.ts", guide)).to.equal(undefined);
  });

  it("gives headings, and rows that begin with code or in bold, anchors of their own.", () => {
    const rows = "| x |\n|---|\n| `key` |\n| **At *night*** |\n| **At night** |\n| **at** night |\n";
    const { html, sections } = render(`# A b\n\n## It's \`c\`\n\n## It's \`c\`\n\n${rows}`);
    expect(sections.map(({ anchor }) => anchor)).to.deep.equal(["a-b", "its-c", "its-c-1", "key", "at-night"]);
    expect(html).to.include('<h2 id="its-c-1">').and.include('<tr id="key">').and.include('<tr id="at-night">');
  });
});
