import type { IncomingMessage, ServerResponse } from "node:http";
import { nextTurn } from "../../async/turns.ts";
import { methodNotAllowed } from "../errors.ts";
import type { HttpRoute } from "../http.ts";
import { sendError, sendText } from "../http-reply.ts";
import type { OpenApiDocument } from "../rest/openapi.ts";
import { addressOf, GUIDE_GROUPS, GUIDES, type Guide, readGuide } from "./guides.ts";
import { DOCS_SECURITY_POLICY, type PageContent, pageHtml } from "./layout.ts";
import { escaped, type Rendered, renderMarkdown } from "./markdown.ts";
import { entriesOf, overviewHtml, type ReferenceEntry, schemasHtml, serviceHtml } from "./reference.ts";
import { SearchIndex, type SearchItem } from "./search.ts";
import { STYLE } from "./style.ts";

const PREFIX = "/docs";
const HEADERS = { "content-security-policy": DOCS_SECURITY_POLICY, "referrer-policy": "no-referrer" };

/** Returns the route of `/docs`: the guides, the REST reference, and a search over both, without scripts. */
export function docsRoute(document: OpenApiDocument): HttpRoute {
  const pages = new DocsPages(document);
  return {
    prefix: PREFIX,
    async handle(request: IncomingMessage, response: ServerResponse) {
      const { pathname, searchParams } = new URL(request.url ?? PREFIX, "http://localhost");
      const isStyle = pathname === `${PREFIX}/style.css`;
      const show = isStyle ? undefined : pages.at(pathname, searchParams.get("q") ?? "");
      if (!isStyle && show === undefined) return false;
      request.resume();
      if (request.method !== "GET" && request.method !== "HEAD") {
        sendError(response, methodNotAllowed(request.method ?? "", "GET, HEAD"));
      } else if (show === undefined) sendText(response, 200, "text/css; charset=utf-8", STYLE);
      else sendText(response, 200, "text/html; charset=utf-8", await show(), HEADERS);
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
    const contents = sections.filter((each) => html.includes(`<h2 id="${each.anchor}"`));
    return { title, html, path, contents };
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
      for (const { anchor, title, text } of sections)
        items.push({ url: `${PREFIX}/guides/${guide.slug}#${anchor}`, title, page, text });
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
      });
    }
    return items;
  }
}

function homeHtml(): string {
  const groups = GUIDE_GROUPS.map(({ name, guides }) => {
    const items = guides.map(({ slug, title }) => `<li><a href="/docs/guides/${slug}">${escaped(title)}</a></li>`);
    return `<section><h2>${escaped(name)}</h2><ul>${items.join("")}</ul></section>`;
  });
  const reference = `<section><h2>Reference</h2><ul><li><a href="/docs/reference">REST calls</a></li>
<li><a href="/docs/schemas">Schemas</a></li><li><a href="/docs/guides/errors">Errors by reason</a></li>
<li><a href="/openapi.json">/openapi.json</a></li></ul></section>`;
  return `<h1>Documentation</h1><p>Guides and reference of this service, in the running version.</p>
<div class="cards">${groups.join("")}${reference}</div>`;
}
