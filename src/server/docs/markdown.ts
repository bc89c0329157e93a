import MarkdownIt, { type MarkdownIt as Renderer, type Token } from "markdown-it";
import { codeBlock } from "./code-block.ts";
import { anchorLink } from "./heading.ts";

/** A part of a rendered page that can be a search result. */
export interface Section {
  /** Fragment of its address. */
  readonly anchor: string;
  readonly title: string;
  /** Its text, without markup. */
  readonly text: string;
}

/** A rendered page. */
export interface Rendered {
  readonly html: string;
  readonly title: string;
  readonly sections: readonly Section[];
}

/** Returns the address of a link; undefined if its target is not served. */
export type LinkTarget = (link: string) => string | undefined;

interface Mutable {
  anchor: string;
  title: string;
  text: string;
}

type Env = {
  readonly target: LinkTarget;
  readonly anchors: Map<string, number>;
};

const createRenderer = (): Renderer => {
  const markdown = MarkdownIt({ html: false, linkify: false, typographer: false });
  // Prettier-style comments such as `<!-- run -->` mark blocks for the tests.
  markdown.block.ruler.before("html_block", "comment", (state, line) => {
    const text = state.src.slice(state.bMarks[line] ?? 0, state.eMarks[line] ?? 0).trim();
    if (!/^<!--.*-->$/.test(text)) return false;
    state.line = line + 1;
    return true;
  });
  markdown.renderer.rules.fence = (tokens, index) =>
    codeBlock(tokens[index]?.content ?? "", tokens[index]?.info.trim() ?? "");
  markdown.renderer.rules.heading_close = (tokens, index) => {
    const { tag = "", meta } = tokens[index] ?? {};
    return `${meta?.anchor === undefined ? "" : anchorLink(String(meta.anchor))}</${tag}>\n`;
  };
  markdown.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>';
  markdown.renderer.rules.table_close = () => "</table></div>";
  return markdown;
};

const MARKDOWN = createRenderer();

/** Returns the anchor of a heading, as GitHub makes it. */
const slugOf = (text: string): string =>
  text
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");

function uniqueAnchor(text: string, { anchors }: Env): string {
  const slug = slugOf(text);
  const times = anchors.get(slug) ?? 0;
  anchors.set(slug, times + 1);
  return times === 0 ? slug : `${slug}-${times}`;
}

const wordsOf = ({ children, content }: Token): string =>
  (children ?? [])
    .map((child) => (child.type === "text" || child.type === "code_inline" ? child.content : " "))
    .join("") || content;

/** Rewrites links to the addresses of their targets. A link whose target is not served becomes plain text. */
function pointLinks(children: readonly Token[], { target }: Env): void {
  let dropped = false;
  for (const token of children) {
    if (token.type === "link_open") {
      const address = target(String(token.attrGet("href") ?? ""));
      dropped = address === undefined;
      if (address === undefined) token.hidden = true;
      else token.attrSet("href", address);
      if (address?.startsWith("http")) token.attrSet("rel", "noreferrer");
    }
    if (token.type === "link_close" && dropped) token.hidden = true;
  }
}

/** Renders Markdown. HTML in it is shown as text; headings, and rows whose first cell is code or bold, get anchors. */
export function renderMarkdown(text: string, target: LinkTarget): Rendered {
  const env: Env = { target, anchors: new Map() };
  const tokens = MARKDOWN.parse(text, env);
  const sections: Mutable[] = [];
  let title = "";
  for (const [index, token] of tokens.entries()) {
    const next = tokens[index + 1];
    if (token.type === "heading_open" && next !== undefined) {
      const words = wordsOf(next);
      const anchor = uniqueAnchor(words, env);
      token.attrSet("id", anchor);
      const close = tokens[index + 2];
      if (token.tag === "h1") title = words;
      else if (close !== undefined) close.meta = { anchor };
      sections.push({ anchor, title: words, text: "" });
    }
    if (token.type === "tr_open") nameRow(tokens, index, sections, env);
    if (token.type === "inline") {
      pointLinks(token.children ?? [], env);
      const isHeading = tokens[index - 1]?.type === "heading_open";
      const last = sections.at(-1);
      if (last !== undefined && !isHeading) last.text += ` ${wordsOf(token)}`;
    }
    if (token.type === "fence") {
      const last = sections.at(-1);
      if (last !== undefined) last.text += ` ${token.content}`;
    }
  }
  return { html: MARKDOWN.renderer.render(tokens, MARKDOWN.options, env), title, sections };
}

/** A cell that names its row: by a word in code, or by words in bold. */
const NAMING_CELL = /^(?:`([A-Za-z0-9_.-]+)`|\*\*([^*`]+)\*\*)$/;

function nameRow(tokens: readonly Token[], index: number, sections: Mutable[], env: Env): void {
  const cell = tokens[index + 2];
  const [, code, words] = NAMING_CELL.exec(cell?.type === "inline" ? cell.content : "") ?? [];
  const title = code ?? words;
  if (title === undefined || tokens[index + 1]?.type !== "td_open") return;
  const anchor = uniqueAnchor(title, env);
  tokens[index]?.attrSet("id", anchor);
  sections.push({ anchor, title, text: "" });
}

/** Renders the text of a description, which has no headings. */
export const renderText = (text: string): string => renderMarkdown(text, () => undefined).html;

/** Renders one line without a paragraph around it. */
export const renderInline = (text: string): string => MARKDOWN.renderInline(text);
