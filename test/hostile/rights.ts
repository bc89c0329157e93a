/** What a disguise may come to: `same` decision as the plain form, or a refusal: its reason, and the field that it names, `-` for none or `*` for any. */
export type Right = "same" | `${Uppercase<string>} ${string}`;

/** Right for a disguise that means what the plain form means. */
export const SAME: readonly Right[] = ["same"];
/** Right for a disguise that must be refused because of a field of the request. */
export const refused = (...fields: readonly string[]): readonly Right[] =>
  fields.map((field): Right => `INVALID_FIELD ${field}`);
/** Right for a disguise that means the same in some of its spellings, and is refused in the others. */
export const sameOrRefused = (...fields: readonly string[]): readonly Right[] => [...SAME, ...refused(...fields)];

/** A disguise that a case has used. */
export interface Use {
  readonly disguise: string;
  readonly rights: readonly Right[];
}

/** What a call came to: a decision as the plain form's, or a refusal. */
export type Reached = "same" | { readonly reason: string; readonly fields: readonly string[] };

const isWithin = (field: string, wanted: string): boolean =>
  field === wanted || field.startsWith(`${wanted}.`) || field.startsWith(`${wanted}[`);

function admits(right: Right, reached: Reached): boolean {
  if (reached === "same" || right === "same") return right === reached;
  const [reason, field] = right.split(" ");
  if (reason !== reached.reason) return false;
  if (field === "*") return true;
  return field === "-" ? reached.fields.length === 0 : reached.fields.some((each) => isWithin(each, field ?? ""));
}

/**
 * Finds out whether what a call came to is right for the disguises in it: the plain form's decision if each of them admits it, a
 * refusal if one of them does.
 */
export const isRight = (uses: readonly Use[], reached: Reached): boolean =>
  reached === "same"
    ? uses.every(({ rights }) => rights.includes("same"))
    : uses.some(({ rights }) => rights.some((right) => admits(right, reached)));

/** Describes what a call came to. */
export const reachedText = (reached: Reached): string =>
  reached === "same" ? "the plain form's decision" : `${reached.reason} (${reached.fields.join(", ") || "no field"})`;

interface Count {
  drawn: number;
  decided: number;
  refused: number;
  rights: readonly Right[];
}

/** How often each disguise was drawn, and what it came to. */
export class Tally {
  readonly #counts = new Map<string, Count>();

  add(uses: readonly Use[], reached: Reached): void {
    for (const { disguise, rights } of uses) {
      const count = this.#counts.get(disguise) ?? { drawn: 0, decided: 0, refused: 0, rights };
      this.#counts.set(disguise, count);
      count.drawn++;
      // A disguise may mean more where another one stands beside it.
      count.rights = [...new Set([...count.rights, ...rights])];
      if (reached === "same") count.decided++;
      else if (rights.some((right) => admits(right, reached))) count.refused++;
    }
  }

  /** Disguises that were drawn less often than they should, or that never came to what is right for them. */
  shortcomings(least: number): string[] {
    return [...this.#counts].flatMap(([disguise, { drawn, decided, refused: refusals, rights }]) => {
      if (drawn < least) return [`${disguise}: drawn ${drawn} times, of ${least} at the least`];
      if (decided === 0 && rights.includes("same")) return [`${disguise}: never got a decision in ${drawn} times`];
      if (refusals === 0 && !rights.includes("same")) return [`${disguise}: never refused in ${drawn} times`];
      return [];
    });
  }

  /** One line for each kind of disguises: of each disguise how often it was drawn, decided and refused. */
  toString(): string {
    const kinds = new Map<string, string[]>();
    for (const [name, { drawn, decided, refused: refusals }] of this.#counts) {
      const [, kind = name, rest = name] = /^(.*?)[,:] (.*)$/.exec(name) ?? [];
      kinds.set(kind, [...(kinds.get(kind) ?? []), `${rest} ${drawn}/${decided}/${refusals}`]);
    }
    const lines = [...kinds].sort().map(([kind, each]) => `${kind}: ${each.sort().join(", ")}`);
    return [`${this.#counts.size} disguises, each with how often it was drawn/decided/refused`, ...lines].join("\n");
  }
}
