import MiniSearch, { type SearchOptions } from "minisearch";
import { escaped } from "../html.ts";

/** An item that a search can find. */
export interface SearchItem {
  /** Its address. */
  readonly url: string;
  readonly title: string;
  /** Title of its page. */
  readonly page: string;
  readonly text: string;
  /** Factor of its score: 1 for a section of a guide. */
  readonly weight: number;
}

const MAX_RESULTS = 30;
/** Maximum characters of a query that are read. */
const MAX_QUERY = 100;
/** Maximum words of a query that are searched for. */
const MAX_TERMS = 5;
/** Maximum share of a word's letters that may differ. */
const MAX_DISTANCE = 0.2;
/** Searches for any of the words, or similar ones. */
const SIMILAR: SearchOptions = {
  processTerm: (term) => term.toLowerCase(),
  fuzzy: (term) => term.length > 4 && MAX_DISTANCE,
};
/** Items that are indexed in one turn of the event loop. */
const CHUNK = 40;
/** Characters of a result's text, around the first word found. */
const SNIPPET = 200;

/** Endings by which forms of an English word differ. */
const ENDING = /(?:ions?|ings?|ied|ies|y|ed|es|e|(?<!s)s)$/;
/** Minimum letters of a stem. */
const MIN_STEM = 3;

/** Returns the common part of a word's forms: `rotat` of rotate, rotating and rotation. */
function stemOf(word: string): string {
  const stem = word.toLowerCase().replace(ENDING, "");
  return stem.length < MIN_STEM ? word.toLowerCase() : stem;
}

/** Index of the documentation. */
export class SearchIndex {
  readonly #items: readonly SearchItem[];
  readonly #index = new MiniSearch<{ readonly id: number } & SearchItem>({
    fields: ["title", "page", "text"],
    processTerm: (term) => [term.toLowerCase(), stemOf(term)],
    searchOptions: {
      boost: { title: 4, page: 2 },
      boostDocument: (id) => this.#items[id]?.weight ?? 1,
      prefix: (term) => term.length > 2,
    },
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
    const strict = this.#index.search(words, { combineWith: "AND", processTerm: stemOf });
    const found = strict.length > 0 ? strict : this.#index.search(words, SIMILAR);
    const items = found.slice(0, MAX_RESULTS).flatMap(({ id }) => this.#items[id] ?? []);
    const count = found.length === 0 ? "Nothing found. Try fewer or other words." : `${found.length} found`;
    const list = items.map((item) => resultHtml(item, terms));
    return `<h1>Search</h1><p class="soft">${count}${found.length > MAX_RESULTS ? `, the first ${MAX_RESULTS} shown` : ""}</p><ol class="results">${list.join("")}</ol>`;
  }
}

function resultHtml({ url, title, page, text }: SearchItem, terms: readonly string[]): string {
  return `<li><a href="${escaped(url)}">${escaped(title)}</a> <span class="soft">${escaped(page)}</span><p>${snippetHtml(text, terms)}</p></li>`;
}

/** Returns the part of a text around the first word found, with the words marked in all their forms. */
function snippetHtml(text: string, terms: readonly string[]): string {
  const plain = text.replace(/\s+/g, " ").trim();
  const stems = terms.map((term) => stemOf(term).replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`((?:${stems.join("|")})\\p{L}*)`, "giu");
  const at = terms.length === 0 ? -1 : plain.search(pattern);
  const from = Math.max(0, at - SNIPPET / 3);
  const part = plain.slice(from, from + SNIPPET).toWellFormed();
  const marked = terms.length === 0 ? [part] : part.split(pattern);
  const html = marked.map((piece, index) => (index % 2 === 1 ? `<mark>${escaped(piece)}</mark>` : escaped(piece)));
  return `${from > 0 ? "…" : ""}${html.join("")}${from + SNIPPET < plain.length ? "…" : ""}`;
}
