import { escaped } from "../html.ts";
import { GUIDE_GROUPS } from "./guides.ts";

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

/** Admits a page's own style, script and form: nothing within the page runs, and nothing comes from another host. */
export const DOCS_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

function link(path: string, name: string, current: string): string {
  const isCurrent = path === current ? ' aria-current="page"' : "";
  return `<li><a href="${escaped(path)}"${isCurrent}>${escaped(name)}</a></li>`;
}

interface PageLink {
  readonly path: string;
  readonly name: string;
}

interface PageGroup {
  readonly name: string;
  readonly pages: readonly PageLink[];
}

/** Returns every page, in the order of the navigation and of reading. */
function groupsOf(tags: readonly string[]): readonly PageGroup[] {
  const guides = GUIDE_GROUPS.map((group) => ({
    name: group.name,
    pages: group.guides.map(({ slug, title }) => ({ path: `/docs/guides/${slug}`, name: title })),
  }));
  const reference = [
    { path: "/docs/reference", name: "REST calls" },
    ...tags.map((tag) => ({ path: `/docs/reference/${tag}`, name: tag })),
    { path: "/docs/schemas", name: "Schemas" },
  ];
  return [...guides, { name: "Reference", pages: reference }];
}

function navigation(current: string, groups: readonly PageGroup[]): string {
  return groups
    .map(({ name, pages }) => {
      const links = pages.map((page) => link(page.path, page.name, current));
      return `<h2>${escaped(name)}</h2><ul>${links.join("")}</ul>`;
    })
    .join("");
}

/** Renders the links to the previous and the next page. */
function neighbours(current: string, groups: readonly PageGroup[]): string {
  const pages = [{ path: "/docs", name: "Documentation" }, ...groups.flatMap((group) => group.pages)];
  const index = pages.findIndex(({ path }) => path === current);
  if (index < 0) return "";
  const linkTo = (rel: "prev" | "next", title: string, page: PageLink | undefined): string =>
    page === undefined
      ? ""
      : `<a rel="${rel}" href="${escaped(page.path)}"><span class="soft">${title}</span> ${escaped(page.name)}</a>`;
  const previous = linkTo("prev", "Previous", pages[index - 1]);
  return `<nav class="neighbours" aria-label="Previous and next page">${previous}${linkTo("next", "Next", pages[index + 1])}</nav>`;
}

function contentsList(contents: PageContent["contents"]): string {
  if (contents === undefined || contents.length < 3) return "";
  const items = contents.map(({ anchor, title }) => `<li><a href="#${escaped(anchor)}">${escaped(title)}</a></li>`);
  return `<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>${items.join("")}</ul></nav>`;
}

/** Returns a whole page. `tags` are the pages of the reference. */
export function pageHtml({ title, html, path, contents, query = "" }: PageContent, tags: readonly string[]): string {
  const groups = groupsOf(tags);
  const nav = navigation(path, groups);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>${escaped(title)} · Agent Control Plane</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/style.css"><script src="/docs/page.js" defer></script></head><body>
<a class="skip" href="#page-content">Skip to the content</a>
<header><a class="brand" href="/docs">Agent Control Plane</a>
<form action="/docs/search" role="search"><input type="search" name="q" value="${escaped(query)}" maxlength="100"
 placeholder="Search guides, calls and errors" aria-label="Search the documentation"><button>Search</button></form>
<a class="home" href="/">Dashboard</a></header>
<div class="page"><nav class="site" aria-label="Documentation">${nav}</nav>
<details class="site-small"><summary>All pages</summary><nav aria-label="Documentation">${nav}</nav></details>
<main id="page-content">${html}${neighbours(path, groups)}</main>${contentsList(contents)}</div>
</body></html>
`;
}
