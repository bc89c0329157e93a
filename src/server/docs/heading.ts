import { escaped } from "../html.ts";

/** Returns the link of a heading to itself, whose address can be copied. */
export const anchorLink = (anchor: string): string =>
  ` <a class="anchor" href="#${escaped(anchor)}" aria-label="Link to this section">#</a>`;

/** Renders a heading with its anchor. */
export const headingHtml = (level: 2 | 3, anchor: string, html: string): string =>
  `<h${level} id="${escaped(anchor)}">${html}${anchorLink(anchor)}</h${level}>`;
