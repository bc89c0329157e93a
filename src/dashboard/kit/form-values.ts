/** What a form holds, by the names of its controls. */
export class FormValues {
  readonly #data: FormData;

  constructor(data: FormData) {
    this.#data = data;
  }

  /** Returns a text without blanks around it; empty if there is none. */
  text(name: string): string {
    const value = this.#data.get(name);
    return typeof value === "string" ? value.trim() : "";
  }

  /** Returns a text; undefined for an empty one. */
  optional(name: string): string | undefined {
    return this.text(name) || undefined;
  }

  /** Returns the lines of a text that are not empty. */
  lines(name: string): string[] {
    const lines = this.text(name).split("\n");
    return lines.map((line) => line.trim()).filter((line) => line !== "");
  }

  /** Returns a number; undefined for an empty text. What is no number is NaN, which the service refuses at its field. */
  number(name: string): number | undefined {
    const text = this.text(name);
    return text === "" ? undefined : Number(text);
  }

  /** Returns a whole number; undefined for an empty text, and 0, which no field takes, for what is none. */
  integer(name: string): number | undefined {
    const value = this.number(name);
    return value === undefined || Number.isSafeInteger(value) ? value : 0;
  }

  /** Returns a length of time in seconds; undefined for none, and 0 for what is no whole number of them. */
  seconds(name: string): number | undefined {
    const count = this.number(name);
    if (count === undefined) return undefined;
    const seconds = count * Number(this.text(`${name}.unit`) || 1);
    return Number.isSafeInteger(seconds) && seconds > 0 ? seconds : 0;
  }

  /** Returns the chosen ones of several boxes of one name. */
  all(name: string): string[] {
    return this.#data.getAll(name).filter((value) => typeof value === "string");
  }

  flag(name: string): boolean {
    return this.#data.get(name) !== null;
  }
}
