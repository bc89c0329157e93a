/** A thing named in a sentence, which a reader can go to. */
export interface Named {
  readonly kind: "agent" | "tool" | "mandate" | "escalation" | "decision" | "list";
  readonly id: string;
}

/** A part of a sentence: the service's own words, or a quoted text from elsewhere, which may name a thing. */
export type Part = string | { readonly quoted: string; readonly names?: Named | undefined };

/** A sentence of an explanation. */
export type Sentence = readonly Part[];

/** Writes a sentence as plain text: quoted texts in backticks, names with their ids. */
export function plainText(sentence: Sentence): string {
  return sentence.map((part) => (typeof part === "string" ? part : plainPart(part))).join("");
}

function plainPart({ quoted, names }: Exclude<Part, string>): string {
  const id = names?.id ?? quoted;
  return id === quoted ? `\`${quoted}\`` : `\`${quoted}\` (${id})`;
}
