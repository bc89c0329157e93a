/** Throws a `TypeError` for an option that is not an `http` or `https` URL. */
export function assertAddress(name: string, url: unknown): void {
  const wanted = `\`${name}\` must be an http or https URL such as \`https://control.example.com\``;
  if (typeof url !== "string") throw new TypeError(`${wanted}, not ${url === null ? "null" : typeof url}`);
  const protocol = URL.canParse(url) ? new URL(url).protocol : undefined;
  if (protocol !== "http:" && protocol !== "https:") throw new TypeError(`${wanted}, not \`${withoutPassword(url)}\``);
}

/** Hides the password in a URL for messages. */
const withoutPassword = (url: string): string => url.replace(/\/\/[^/@]*@/, "//…@");

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
