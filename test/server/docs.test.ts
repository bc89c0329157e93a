import { expect } from "chai";
import { docsRoute } from "../../src/server/docs/docs-route.ts";
import { addressOf, GUIDES } from "../../src/server/docs/guides.ts";
import { renderMarkdown } from "../../src/server/docs/markdown.ts";
import { openApiFromServices } from "../../src/server/rest/openapi.ts";
import { REASON_WORDS } from "../../src/server/rest/openapi-errors.ts";
import { SERVICES } from "../conformance/methods.ts";
import { type Harness, startHarness } from "./harness.ts";

interface Page {
  readonly status: number;
  readonly headers: Headers;
  readonly html: string;
}

describe("the documentation", () => {
  const document = openApiFromServices(SERVICES, { title: "Plane", version: "v1" });
  const paths = [
    "/docs",
    "/docs/reference",
    "/docs/schemas",
    "/docs/search?q=trust",
    ...GUIDES.map(({ slug }) => `/docs/guides/${slug}`),
    ...document.tags.map(({ name }) => `/docs/reference/${name}`),
  ];
  let harness: Harness;
  before(async () => {
    harness = await startHarness({ http: { extra: [docsRoute(document)] } });
  });
  after(() => harness.stop());

  async function get(path: string, init: RequestInit = {}): Promise<Page> {
    const response = await fetch(harness.url(path), init);
    return { status: response.status, headers: response.headers, html: await response.text() };
  }

  /** Returns what a page finds for a query, best first. */
  async function found(query: string): Promise<string[]> {
    const { html } = await get(`/docs/search?q=${encodeURIComponent(query)}`);
    return [...html.matchAll(/<li><a href="([^"]+)">[^<]*<\/a> <span/g)].map(([, url = ""]) => url);
  }

  it("has no script, and its policy admits none, nor anything from another host.", async () => {
    for (const path of paths) {
      const { status, headers, html } = await get(path);
      expect(status, path).to.equal(200);
      expect(headers.get("content-type")).to.equal("text/html; charset=utf-8");
      expect(headers.get("content-security-policy")).to.include("default-src 'none'").and.not.include("script");
      expect(html).not.to.match(/<script|\son\w+=|javascript:|<style|\sstyle=/i);
      const loaded = [...html.matchAll(/<(?:link|img|source|iframe)[^>]+(?:href|src)="([^"]*)"/g)].map(
        ([, url]) => url,
      );
      expect([...new Set(loaded)]).to.deep.equal(["data:,", "/docs/style.css"]);
    }
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

  it("describes every call with its fields, an example and its errors.", async () => {
    const { html } = await get("/docs/reference/EnforcementService");
    expect(html).to.include('id="EnforcementService_Intercept"').and.include("<code>/v1/enforce/intercept</code>");
    expect(html).to.include("The agent that acts.").and.include("curl -X POST");
    expect(html).to.include('href="/docs/guides/errors#agent_not_found"').and.include('href="/docs/schemas#Decision"');
    const { html: overview } = await get("/docs/reference");
    for (const path of Object.keys(document.paths)) expect(overview).to.include(`<code>${path}</code>`);
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

  it("shows a query as text, whatever it holds, and reads only its beginning.", async () => {
    const { html } = await get(`/docs/search?q=${encodeURIComponent('"><script>alert(1)</script>')}`);
    expect(html).to.include("&quot;&gt;&lt;script&gt;").and.not.include("<script");
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

  it("gives headings, and rows that begin with code, anchors of their own.", () => {
    const { html, sections } = render("# A b\n\n## It's `c`\n\n## It's `c`\n\n| x |\n|---|\n| `key` |\n");
    expect(sections.map(({ anchor }) => anchor)).to.deep.equal(["a-b", "its-c", "its-c-1", "key"]);
    expect(html).to.include('<h2 id="its-c-1">').and.include('<tr id="key">');
  });
});
