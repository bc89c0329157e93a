/** A part of a URI template (RFC 6570): literal text, or an expression. */
interface Part {
  /** Literal text; of an expression, the text with which its expansion begins. */
  readonly literal: string;
  /** Characters that end an expansion; undefined for literal text. */
  readonly ends: string | undefined;
  /** True for an expression that may expand to nothing. */
  readonly isOptional: boolean;
}

/** Maximum parts of a template: longer ones match nothing. */
const MAX_PARTS = 200;
const EXPRESSION = /\{([+#./;?&]?)([^{}]*)\}/g;
const SEGMENT = "/?#";
/** By operator: the text before an expansion, and the characters that end it. */
const OPERATORS: Readonly<Record<string, Omit<Part, "isOptional">>> = {
  "": { literal: "", ends: SEGMENT },
  "+": { literal: "", ends: "" },
  "#": { literal: "#", ends: "" },
  ".": { literal: ".", ends: SEGMENT },
  "/": { literal: "/", ends: "?#" },
  ";": { literal: ";", ends: SEGMENT },
  "?": { literal: "?", ends: "#" },
  "&": { literal: "&", ends: "#" },
};

function partsOf(template: string): readonly Part[] {
  const parts: Part[] = [];
  let at = 0;
  for (const { 0: whole, 1: operator = "", index } of template.matchAll(EXPRESSION)) {
    if (index > at) parts.push({ literal: template.slice(at, index), ends: undefined, isOptional: false });
    const { literal, ends } = OPERATORS[operator] ?? { literal: "", ends: SEGMENT };
    parts.push({ literal, ends, isOptional: operator !== "" && operator !== "+" });
    at = index + whole.length;
  }
  if (at < template.length) parts.push({ literal: template.slice(at), ends: undefined, isOptional: false });
  return parts;
}

/**
 * Tests whether a URI template can expand to a URI. Expansions may be of any length, so the server may still refuse the URI.
 * Takes time in proportion to the URI and the template, whatever the server wrote into it.
 */
export function matchesTemplate(template: string, uri: string): boolean {
  const parts = partsOf(template);
  if (parts.length > MAX_PARTS) return false;
  let places = new Set([0]);
  for (const part of parts) {
    places = placesAfter(part, uri, places);
    if (places.size === 0) return false;
  }
  return places.has(uri.length);
}

/** Returns the places in a URI at which a part may end that begins at one of some places. */
function placesAfter({ literal, ends, isOptional }: Part, uri: string, places: ReadonlySet<number>): Set<number> {
  const after = new Set<number>();
  let reached = -1;
  for (const place of [...places].sort((a, b) => a - b)) {
    if (isOptional) after.add(place);
    if (!uri.startsWith(literal, place)) continue;
    const from = place + literal.length;
    if (ends === undefined) after.add(from);
    // Places up to `reached` are known from an earlier beginning.
    else
      for (let at = Math.max(from, reached); at < uri.length && !ends.includes(uri[at] as string); ) {
        at += 1;
        after.add(at);
        reached = at;
      }
  }
  return after;
}
