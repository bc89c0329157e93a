import { isIPv4, isIPv6 } from "node:net";

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const TIME = /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i;
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;
const SCHEME = /^[a-z][a-z\d+.-]*:/i;
const LOCAL_PART = /^[^\s@<>()[\]\\,;:"]{1,64}$/;
const LABEL = /^[\p{L}\p{N}]([\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?$/u;

function isDate(text: string): boolean {
  const [, year, month, day] = DATE.exec(text) ?? [];
  if (year === undefined) return false;
  const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

function isDateTime(text: string): boolean {
  return /^[t ]$/i.test(text.charAt(10)) && isDate(text.slice(0, 10)) && TIME.test(text.slice(11));
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf("@");
  if (at < 1 || text.length > 254 || !LOCAL_PART.test(text.slice(0, at))) return false;
  return isHostname(text.slice(at + 1));
}

function isHostname(text: string): boolean {
  return text.length <= 253 && text.split(".").every((label) => LABEL.test(label));
}

function isUri(text: string): boolean {
  return SCHEME.test(text) && !/\s/.test(text) && URL.canParse(text);
}

/**
 * The formats of strings that are checked, each in time linear in the text: RFC 3339 dates and times, mail addresses,
 * host names, IP addresses, absolute URIs and UUIDs. JSON Schema leaves it open; every other format says nothing.
 */
export const STRING_FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: (text) => TIME.test(text),
  "date-time": isDateTime,
  email: isEmail,
  hostname: isHostname,
  ipv4: isIPv4,
  ipv6: (text) => isIPv6(text) && !text.includes("%"),
  uri: isUri,
  uuid: (text) => UUID.test(text),
};
