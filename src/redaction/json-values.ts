import { Turns } from "../async/turns.ts";
import { doInTurns, type Work } from "../async/work.ts";
import { PhoneLookups } from "../text/detectors/phone-lookups.ts";
import { hideInText, isJsonDocument } from "./text/document-text.ts";
import type { Scrubber } from "./text/scrubber.ts";

/** A JSON value. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [member: string]: JsonValue };

/**
 * Tests whether a value passes unscrubbed, with everything in it. `path` names its place, such as `result.content[].data`; it is
 * empty for the whole value.
 */
export type IsKept = (path: string, value: JsonValue) => boolean;

/** Characters that are scrubbed between two looks at the clock. */
const PIECE = 256;
/** Names of members that hold no personal value: short words without the digits of one. */
const PLAIN_NAME = /^(?!.*\d{4})[\w$-]{1,64}$/;
/** Media as a `data:` URL. */
const MEDIA_URL =
  /^data:(?:image|audio|video|font|application\/(?:pdf|octet-stream|zip))[/\w.+;=-]*;base64,[\w+/=\s-]*$/i;
const DATA_URL = /^data:([^,]*),(.*)$/is;
/** A URI with escaped characters. */
const ESCAPED_URI = /^[a-z][a-z0-9+.-]*:\S*%[0-9a-f]{2}/i;
/** An escape of JSON in a text around a document, or of several documents. */
const UNICODE_ESCAPE = /\\u([0-9a-fA-F]{4})/g;

/**
 * Scrubs the texts, numbers and names of members of a JSON value over several turns of the event loop. Reads JSON documents in
 * texts, escaped URIs and the text of `data:` URLs as well; media in base64 passes. Rejects if a detector throws, and for a value
 * that nests too deeply.
 */
export async function scrubJson(scrubber: Scrubber, value: JsonValue, isKept: IsKept): Promise<JsonValue> {
  const texts = new Set<string>();
  await doInTurns(
    replaceTexts(value, isKept, (text) => {
      texts.add(text);
      return text;
    }),
  );
  const scrubbed = new Map<string, string>();
  const turns = new Turns();
  const lookups = new PhoneLookups();
  for (const text of texts) scrubbed.set(text, await scrubText(scrubber, text, turns, lookups));
  return doInTurns(
    replaceTexts(value, isKept, (text) => {
      const found = scrubbed.get(text);
      if (found === undefined) throw new Error("a text of the value was not collected");
      return found;
    }),
  );
}

async function scrubText(scrubber: Scrubber, text: string, turns: Turns, lookups: PhoneLookups): Promise<string> {
  const stream = scrubber.openStream({ restore: false, lookups });
  const out: string[] = [];
  for (let start = 0; start < text.length; start += PIECE) {
    out.push(stream.push(text.slice(start, start + PIECE)));
    await turns.giveWay();
  }
  return out.join("") + stream.end();
}

/** Values that are replaced between two looks at the clock. */
const VALUES = 256;

/** Replaces every text of a value that may hold a personal value. */
function* replaceTexts(whole: JsonValue, isKept: IsKept, replacePlain: (text: string) => string): Work<JsonValue> {
  let values = 0;
  const replace = (text: string): Work<string> => hideInText(replacePlain, text);

  const replaceText = function* (text: string): Work<string> {
    if (MEDIA_URL.test(text)) return text;
    if (yield* isJsonDocument(text)) return yield* replace(text);
    const [, parameters, data] = DATA_URL.exec(text) ?? [];
    if (parameters !== undefined && data !== undefined) return yield* replaceDataUrl(replace, text, parameters, data);
    const isUri = ESCAPED_URI.test(text);
    const said = isUri
      ? decoded(text)
      : text.replace(UNICODE_ESCAPE, (_, code) => String.fromCharCode(Number(`0x${code}`)));
    const shown = said === text ? said : yield* replace(said);
    // An escape that conceals no value stays as it is.
    if (shown === said) return yield* replace(text);
    return isUri ? encodeURI(shown) : shown;
  };

  const replaceMembers = function* (path: string, value: { [member: string]: JsonValue }): Work<JsonValue> {
    const members: [string, JsonValue][] = [];
    const names = new Set<string>();
    const twins = new Map<string, number>();
    for (const [name, member] of Object.entries(value)) {
      const shown = PLAIN_NAME.test(name) ? name : yield* replaceText(name);
      let free = shown;
      for (let twin = twins.get(shown) ?? 2; names.has(free); twin++) {
        free = `${shown} ${twin}`;
        twins.set(shown, twin);
      }
      names.add(free);
      members.push([free, yield* replaceValue(path === "" ? name : `${path}.${name}`, member)]);
    }
    return Object.fromEntries(members);
  };

  const replaceValue = function* (path: string, value: JsonValue): Work<JsonValue> {
    values += 1;
    if (values % VALUES === 0) yield;
    if (isKept(path, value)) return value;
    if (typeof value === "string") return yield* replaceText(value);
    if (typeof value === "number") {
      const text = String(value);
      const shown = yield* replace(text);
      return shown === text ? value : shown;
    }
    if (Array.isArray(value)) {
      const items: JsonValue[] = [];
      for (const item of value) items.push(yield* replaceValue(`${path}[]`, item));
      return items;
    }
    return typeof value === "object" && value !== null ? yield* replaceMembers(path, value) : value;
  };

  return yield* replaceValue("", whole);
}

/** Replaces the values in the text of a `data:` URL. A URL without values stays as it is. */
function* replaceDataUrl(
  replace: (text: string) => Work<string>,
  url: string,
  parameters: string,
  data: string,
): Work<string> {
  const isBase64 = /;base64$/i.test(parameters);
  const said = isBase64 ? Buffer.from(data, "base64").toString("utf8") : decoded(data);
  const shown = yield* replace(said);
  if (shown === said) return url;
  return `data:${parameters.replace(/;base64$/i, "")},${encodeURIComponent(shown)}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
