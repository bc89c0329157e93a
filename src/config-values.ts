import { isIP } from "node:net";
import { inspect } from "node:util";

/** A value that prints as `***` (or as the text given as `shown`) wherever it is logged; MUST only be read with `reveal()`. */
export class Secret {
  readonly #value: string;
  readonly #shown: string;

  constructor(value: string, shown = "***") {
    this.#value = value;
    this.#shown = shown;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return this.#shown;
  }

  toJSON(): string {
    return this.#shown;
  }

  [inspect.custom](): string {
    return this.#shown;
  }
}

/** Reads one value; throws an `Error` whose message continues "NAME …". */
export type Read<T> = (text: string) => T;

/** A whole number within bounds, both included; `unit` follows the word "number": ` of bytes`. */
export function whole(min: number, max: number, unit = ""): Read<number> {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new Error(`must be a whole number${unit} from ${min} to ${max}, not \`${text}\``);
  };
}

/** One of some words, in whatever case. */
export function oneOf<T extends string>(words: readonly T[]): Read<T> {
  return (text) => {
    const word = words.find((known) => known === text.toLowerCase());
    if (word !== undefined) return word;
    throw new Error(`must be one of ${words.join(", ")}, not \`${text}\``);
  };
}

/** The URL with passwords masked, as user info and as query parameter. */
function masked(url: URL): string {
  const copy = new URL(url);
  if (copy.password !== "") copy.password = "***";
  for (const name of copy.searchParams.keys()) {
    if (/pass|key|secret|token/i.test(name)) copy.searchParams.set(name, "***");
  }
  return copy.href;
}

/** A URL that may hold a password and is printed without it; `form` shows how it is written. */
export function secretUrl(protocols: readonly string[], accepts: (url: URL) => boolean, form: string): Read<Secret> {
  return (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    // The value may hold a password, so a refusal does not repeat it.
    if (!url || !protocols.includes(url.protocol) || !accepts(url)) throw new Error(`must have the form ${form}`);
    return new Secret(text, masked(url));
  };
}

/** An http or https URL that ends in `/v1` and holds nothing but host and path. */
export function modelUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url !== undefined && `${url.origin}${url.pathname}` === url.href && url.pathname.endsWith("/v1");
  if (isPlain && ["http:", "https:"].includes(url.protocol)) return url.href;
  // The value may hold a password, so a refusal does not repeat it.
  throw new Error("must have the form https://host/v1, without user, query or fragment");
}

/** The name of a model at its service. */
export function modelName(text: string): string {
  if (/^[\x21-\x7e]{1,128}$/.test(text)) return text;
  throw new Error(`must be 1 to 128 printable ASCII characters without spaces, not \`${text}\``);
}

/** A key that goes into a header. */
export function modelKey(text: string): Secret {
  if (/^[\x21-\x7e]{1,4096}$/.test(text)) return new Secret(text);
  throw new Error("must be printable ASCII characters without spaces");
}

/** The secret that personal values are encrypted under: as hard to guess as a key. */
export function redactionKey(text: string): Secret {
  if (/^[\x21-\x7e]{32,256}$/.test(text)) return new Secret(text);
  throw new Error("must be 32 to 256 printable ASCII characters without spaces");
}

/** The administrator's key: long enough not to be guessed. */
export function adminKey(text: string): Secret {
  if (/^[\x21-\x7e]{16,256}$/.test(text)) return new Secret(text);
  throw new Error("must be 16 to 256 printable ASCII characters without spaces");
}

/** An IP address or a host name. */
export function host(text: string): string {
  if (
    isIP(text) !== 0 ||
    /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i.test(text)
  ) {
    return text;
  }
  throw new Error(`must be an IP address or a host name, not \`${text}\``);
}

/** A URL without scheme, of a host name and perhaps a port and a path. */
export function origin(text: string): string {
  if (/^(?=.{1,200}$)[a-z0-9][a-z0-9.-]*(:\d{1,5})?(\/[a-z0-9._~-]+)*$/.test(text)) return text;
  throw new Error(`must be a URL without scheme, such as log.example.com/agents, not \`${text}\``);
}

function isCidr(block: string): boolean {
  const [address = "", bits = "", ...rest] = block.split("/");
  const family = isIP(address);
  return rest.length === 0 && family !== 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
}

/** CIDR blocks with commas between; none for an empty text. */
export function cidrs(text: string): readonly string[] {
  const blocks = text === "" ? [] : text.split(",").map((block) => block.trim());
  const wrong = blocks.find((block) => !isCidr(block));
  if (wrong === undefined) return blocks;
  throw new Error(`must be CIDR blocks with commas between, such as 10.0.0.0/8,fd00::/8; \`${wrong}\` is none`);
}
