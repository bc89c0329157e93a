import { GUIDE_GROUPS } from "./guides.ts";
import { escaped } from "./markdown.ts";

/** Content of a page. */
export interface PageContent {
  readonly title: string;
  readonly html: string;
  /** Path of the page, marked in the navigation. */
  readonly path: string;
  /** Links beside the content: fragment and name. */
  readonly contents?: readonly { readonly anchor: string; readonly title: string }[];
  readonly query?: string;
}

/** Admits the page's own style and form: it has no script and loads nothing from another host. */
export const DOCS_SECURITY_POLICY =
  "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

function link(path: string, name: string, current: string): string {
  const isCurrent = path === current ? ' aria-current="page"' : "";
  return `<li><a href="${escaped(path)}"${isCurrent}>${escaped(name)}</a></li>`;
}

function navigation(current: string, tags: readonly string[]): string {
  const guides = GUIDE_GROUPS.map(
    ({ name, guides }) =>
      `<h2>${escaped(name)}</h2><ul>${guides.map(({ slug, title }) => link(`/docs/guides/${slug}`, title, current)).join("")}</ul>`,
  );
  const reference = [
    link("/docs/reference", "Overview", current),
    ...tags.map((tag) => link(`/docs/reference/${tag}`, tag, current)),
    link("/docs/schemas", "Schemas", current),
  ];
  return `${guides.join("")}<h2>Reference</h2><ul>${reference.join("")}</ul>`;
}

function contentsList(contents: PageContent["contents"]): string {
  if (contents === undefined || contents.length < 3) return "";
  const items = contents.map(({ anchor, title }) => `<li><a href="#${escaped(anchor)}">${escaped(title)}</a></li>`);
  return `<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>${items.join("")}</ul></nav>`;
}

/** Returns a whole page. `tags` are the pages of the reference. */
export function pageHtml({ title, html, path, contents, query = "" }: PageContent, tags: readonly string[]): string {
  const nav = navigation(path, tags);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>${escaped(title)} · Agent Control Plane</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/style.css"></head><body>
<a class="skip" href="#content">Skip to the content</a>
<header><a class="brand" href="/docs">Agent Control Plane</a>
<form action="/docs/search" role="search"><input type="search" name="q" value="${escaped(query)}" maxlength="100"
 placeholder="Search guides, calls and errors" aria-label="Search the documentation"><button>Search</button></form>
<a class="home" href="/">Dashboard</a></header>
<div class="page"><nav class="site" aria-label="Documentation">${nav}</nav>
<details class="site-small"><summary>All pages</summary><nav aria-label="Documentation">${nav}</nav></details>
<main id="content">${html}</main>${contentsList(contents)}</div>
</body></html>
`;
}
