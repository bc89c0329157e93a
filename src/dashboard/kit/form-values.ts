/** Values of a form, by the names of its controls. */
export class FormValues {
  readonly #data: FormData;

  constructor(data: FormData) {
    this.#data = data;
  }

  /** Returns a text, trimmed; empty if the control is absent. */
  text(name: string): string {
    const value = this.#data.get(name);
    return typeof value === "string" ? value.trim() : "";
  }

  /** Returns a text; undefined if it is empty. */
  optional(name: string): string | undefined {
    return this.text(name) || undefined;
  }

  /** Returns the lines of a text, trimmed, without empty ones. */
  lines(name: string): string[] {
    const lines = this.text(name).split("\n");
    return lines.map((line) => line.trim()).filter((line) => line !== "");
  }

  /** Returns a number; undefined for an empty text. Any other text gives NaN, which the service refuses at its field. */
  number(name: string): number | undefined {
    const text = this.text(name);
    return text === "" ? undefined : Number(text);
  }

  /** Returns a whole number; undefined for an empty text. Other values give 0, which the service refuses at its field. */
  integer(name: string): number | undefined {
    const value = this.number(name);
    return value === undefined || Number.isSafeInteger(value) ? value : 0;
  }

  /** Returns a duration in whole seconds; undefined for an empty text. Other values give 0, which the service refuses. */
  seconds(name: string): number | undefined {
    const count = this.number(name);
    if (count === undefined) return undefined;
    const seconds = count * Number(this.text(`${name}.unit`) || 1);
    return Number.isSafeInteger(seconds) && seconds > 0 ? seconds : 0;
  }

  /** Returns the values of the checked boxes that share a name. */
  all(name: string): string[] {
    return this.#data.getAll(name).filter((value) => typeof value === "string");
  }

  flag(name: string): boolean {
    return this.#data.get(name) !== null;
  }
}
