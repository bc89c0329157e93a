import MiniSearch from "minisearch";
import { escaped } from "./markdown.ts";

/** An item that a search can find. */
export interface SearchItem {
  /** Its address. */
  readonly url: string;
  readonly title: string;
  /** Title of its page. */
  readonly page: string;
  readonly text: string;
}

const MAX_RESULTS = 30;
/** Maximum characters of a query that are read. */
const MAX_QUERY = 100;
/** Maximum words of a query that are searched for. */
const MAX_TERMS = 5;
/** Maximum share of a word's letters that may differ. */
const MAX_DISTANCE = 0.2;
/** Items that are indexed in one turn of the event loop. */
const CHUNK = 40;
/** Characters of a result's text, around the first word found. */
const SNIPPET = 200;

/** Index of the documentation. */
export class SearchIndex {
  readonly #items: readonly SearchItem[];
  readonly #index = new MiniSearch<{ readonly id: number } & SearchItem>({
    fields: ["title", "page", "text"],
    searchOptions: { boost: { title: 4, page: 2 }, prefix: (term) => term.length > 2 },
  });

  private constructor(items: readonly SearchItem[]) {
    this.#items = items;
  }

  /** Indexes items over several event-loop turns. */
  static async of(items: readonly SearchItem[]): Promise<SearchIndex> {
    const made = new SearchIndex(items);
    const numbered = items.map((item, id) => ({ id, ...item }));
    await made.#index.addAllAsync(numbered, { chunkSize: CHUNK });
    return made;
  }

  /** Renders the results of a query: items with all its words, else items with any of them or with similar words. */
  resultsHtml(query: string): string {
    const terms = query
      .slice(0, MAX_QUERY)
      .split(/[\s\p{P}]+/u)
      .filter((term) => term !== "")
      .slice(0, MAX_TERMS);
    const words = terms.join(" ");
    const strict = this.#index.search(words, { combineWith: "AND" });
    const found =
      strict.length > 0 ? strict : this.#index.search(words, { fuzzy: (term) => term.length > 4 && MAX_DISTANCE });
    const items = found.slice(0, MAX_RESULTS).flatMap(({ id }) => this.#items[id] ?? []);
    const count = found.length === 0 ? "Nothing found. Try fewer or other words." : `${found.length} found`;
    const list = items.map((item) => resultHtml(item, terms));
    return `<h1>Search</h1><p class="soft">${count}${found.length > MAX_RESULTS ? `, the first ${MAX_RESULTS} shown` : ""}</p><ol class="results">${list.join("")}</ol>`;
  }
}

function resultHtml({ url, title, page, text }: SearchItem, terms: readonly string[]): string {
  return `<li><a href="${escaped(url)}">${escaped(title)}</a> <span class="soft">${escaped(page)}</span><p>${snippetHtml(text, terms)}</p></li>`;
}

/** Returns the part of a text around the first word found, with the words marked. */
function snippetHtml(text: string, terms: readonly string[]): string {
  const plain = text.replace(/\s+/g, " ").trim();
  const escapedTerms = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`(${escapedTerms.join("|")})`, "giu");
  const at = terms.length === 0 ? -1 : plain.search(pattern);
  const from = Math.max(0, at - SNIPPET / 3);
  const part = plain.slice(from, from + SNIPPET).toWellFormed();
  const marked = terms.length === 0 ? [part] : part.split(pattern);
  const html = marked.map((piece, index) => (index % 2 === 1 ? `<mark>${escaped(piece)}</mark>` : escaped(piece)));
  return `${from > 0 ? "…" : ""}${html.join("")}${from + SNIPPET < plain.length ? "…" : ""}`;
}
