const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/** Throws a `TypeError` for a key that no header can carry. The message does not show it. */
export function assertApiKey(apiKey: unknown): void {
  if (typeof apiKey === "string" && VISIBLE_ASCII.test(apiKey)) return;
  const fault =
    apiKey === undefined || apiKey === "" ? "is missing" : "holds a blank or a character that a header cannot carry";
  throw new TypeError(`\`apiKey\` ${fault}; copy the key as it was shown when it was created`);
}

/** Throws a `TypeError` for a time that is not a positive number. */
export function assertPositive(name: string, value: number): void {
  if (typeof value === "number" && value > 0) return;
  throw new TypeError(`\`${name}\` must be a number above 0, not \`${value}\``);
}

/** Throws a `TypeError` for a count that is not a whole number above 0. */
export function assertCount(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value > 0) return;
  throw new TypeError(`\`${name}\` must be a whole number above 0, not \`${value}\``);
}
