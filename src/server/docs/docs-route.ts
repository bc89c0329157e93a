import type { IncomingMessage, ServerResponse } from "node:http";
import { nextTurn } from "../../async/turns.ts";
import { methodNotAllowed } from "../errors.ts";
import { escaped } from "../html.ts";
import type { HttpRoute } from "../http.ts";
import { sendError, sendText } from "../http-reply.ts";
import type { OpenApiDocument } from "../rest/openapi.ts";
import { addressOf, GUIDE_GROUPS, GUIDES, type Guide, readGuide } from "./guides.ts";
import { headingHtml } from "./heading.ts";
import { DOCS_SECURITY_POLICY, type PageContent, pageHtml } from "./layout.ts";
import { type Rendered, renderMarkdown } from "./markdown.ts";
import { SCRIPT } from "./page-script.ts";
import { entriesOf, overviewHtml, type ReferenceEntry, schemasHtml, serviceHtml } from "./reference.ts";
import { SearchIndex, type SearchItem } from "./search.ts";
import { STYLE } from "./style.ts";

const PREFIX = "/docs";
/** Weights of search results: a guide stands before the calls that it explains, and a section on a word before a name that holds it. */
const WEIGHTS = { page: 2, section: 1, name: 0.6, call: 0.5, history: 0.2 } as const;
/** Name of several words: `acp_calls_total`. */
const NAME = /^\w+_\w+$/;
/** Number of headings from which a list of them beside the page is enough without the headings below. */
const MIN_CHAPTERS = 3;
/** Files that the pages load. */
const FILES: Readonly<Record<string, { readonly type: string; readonly text: string }>> = {
  [`${PREFIX}/style.css`]: { type: "text/css; charset=utf-8", text: STYLE },
  [`${PREFIX}/page.js`]: { type: "text/javascript; charset=utf-8", text: SCRIPT },
};
const HEADERS = { "content-security-policy": DOCS_SECURITY_POLICY, "referrer-policy": "no-referrer" };

/** Returns the route of `/docs`: the guides, the REST reference, and a search over both. All of it works without scripts but for the buttons that copy. */
export function docsRoute(document: OpenApiDocument): HttpRoute {
  const pages = new DocsPages(document);
  return {
    prefix: PREFIX,
    async handle(request: IncomingMessage, response: ServerResponse) {
      const { pathname, searchParams } = new URL(request.url ?? PREFIX, "http://localhost");
      const file = Object.hasOwn(FILES, pathname) ? FILES[pathname] : undefined;
      const show = file === undefined ? pages.at(pathname, searchParams.get("q") ?? "") : undefined;
      if (file === undefined && show === undefined) return false;
      request.resume();
      if (request.method !== "GET" && request.method !== "HEAD") {
        sendError(response, methodNotAllowed(request.method ?? "", "GET, HEAD"));
      } else if (file !== undefined) sendText(response, 200, file.type, file.text, HEADERS);
      else if (show !== undefined) sendText(response, 200, "text/html; charset=utf-8", await show(), HEADERS);
      return true;
    },
  };
}

/** Creates each page on first request and keeps it; their number is bounded by the guides and services. */
class DocsPages {
  readonly #document: OpenApiDocument;
  readonly #entries: readonly ReferenceEntry[];
  readonly #tags: readonly string[];
  readonly #made = new Map<string, Promise<string>>();
  readonly #guides = new Map<string, Promise<Rendered>>();
  #index: Promise<SearchIndex> | undefined;

  constructor(document: OpenApiDocument) {
    this.#document = document;
    this.#entries = entriesOf(document);
    this.#tags = document.tags.map(({ name }) => name);
  }

  /** Returns the function that creates the page at a path. */
  at(path: string, query: string): (() => Promise<string>) | undefined {
    if (path === `${PREFIX}/search`) return () => this.#search(query);
    const content = this.#contentAt(path);
    if (content === undefined) return undefined;
    return () => {
      const made = this.#made.get(path) ?? content().then((page) => pageHtml(page, this.#tags));
      this.#made.set(path, made);
      made.catch(() => this.#made.delete(path));
      return made;
    };
  }

  #contentAt(path: string): (() => Promise<PageContent>) | undefined {
    const document = this.#document;
    if (path === PREFIX) return async () => ({ title: "Documentation", html: homeHtml(), path });
    if (path === `${PREFIX}/schemas`)
      return async () => ({ title: "Schemas", html: await schemasHtml(document), path });
    if (path === `${PREFIX}/reference`) {
      return async () => ({ title: "REST reference", html: overviewHtml(document, this.#entries), path });
    }
    const [, kind, name] = /^\/docs\/(guides|reference)\/([\w-]+)$/.exec(path) ?? [];
    const guide = kind === "guides" ? GUIDES.find(({ slug }) => slug === name) : undefined;
    if (guide !== undefined) return () => this.#guidePage(guide, path);
    if (kind !== "reference" || name === undefined || !this.#tags.includes(name)) return undefined;
    return async () => ({
      title: name,
      path,
      html: serviceHtml(document, name, this.#entries),
      contents: this.#entries
        .filter(({ operation }) => operation.tags.includes(name))
        .map(({ operation: { operationId } }) => ({ anchor: operationId, title: operationId.split("_")[1] ?? "" })),
    });
  }

  async #guidePage(guide: Guide, path: string): Promise<PageContent> {
    const { html, title, sections } = await this.#rendered(guide);
    const chapters = sections.filter(({ anchor }) => html.includes(`<h2 id="${anchor}"`));
    const parts = sections.filter(({ anchor }) => new RegExp(`<h[23] id="${anchor}"`).test(html));
    return { title, html, path, contents: chapters.length < MIN_CHAPTERS ? parts : chapters };
  }

  #rendered(guide: Guide): Promise<Rendered> {
    const known = this.#guides.get(guide.slug);
    if (known !== undefined) return known;
    const made = readGuide(guide).then((text) => renderMarkdown(text, (link) => addressOf(link, guide)));
    this.#guides.set(guide.slug, made);
    made.catch(() => this.#guides.delete(guide.slug));
    return made;
  }

  async #search(query: string): Promise<string> {
    this.#index ??= this.#items().then((items) => SearchIndex.of(items));
    this.#index.catch(() => {
      this.#index = undefined;
    });
    const html = (await this.#index).resultsHtml(query);
    return pageHtml({ title: "Search", html, path: `${PREFIX}/search`, query: query.slice(0, 100) }, this.#tags);
  }

  async #items(): Promise<readonly SearchItem[]> {
    const items: SearchItem[] = [];
    for (const guide of GUIDES) {
      const { sections, title: page } = await this.#rendered(guide);
      for (const [index, { anchor, title, text }] of sections.entries()) {
        const weight = index === 0 ? WEIGHTS.page : NAME.test(title) ? WEIGHTS.name : WEIGHTS.section;
        items.push({
          url: `${PREFIX}/guides/${guide.slug}#${anchor}`,
          title,
          page,
          text,
          weight: guide.slug === "changelog" ? WEIGHTS.history : weight,
        });
      }
      await nextTurn();
    }
    for (const { operation, path, httpMethod } of this.#entries) {
      const { operationId, tags, description } = operation;
      const [page = ""] = tags;
      const title = `${httpMethod} ${path}`;
      items.push({
        url: `${PREFIX}/reference/${page}#${operationId}`,
        title,
        page,
        text: `${operationId} ${description}`,
        weight: WEIGHTS.call,
      });
    }
    return items;
  }
}

function homeHtml(): string {
  const groups = GUIDE_GROUPS.map(({ name, guides }) => {
    const items = guides.map(({ slug, title }) => `<li><a href="/docs/guides/${slug}">${escaped(title)}</a></li>`);
    const anchor = name.toLowerCase().replaceAll(" ", "-");
    return `<section>${headingHtml(2, anchor, escaped(name))}<ul>${items.join("")}</ul></section>`;
  });
  const reference = `<section>${headingHtml(2, "reference", "Reference")}<ul><li><a href="/docs/reference">REST calls</a></li>
<li><a href="/docs/schemas">Schemas</a></li><li><a href="/docs/guides/errors">Errors by reason</a></li>
<li><a href="/openapi.json">/openapi.json</a></li></ul></section>`;
  return `<h1>Documentation</h1><p>Guides and reference of this service, in the running version.</p>
<div class="cards">${groups.join("")}${reference}</div>`;
}
