import { fold } from "../text/fold.ts";
import { hostOf as urlHostOf } from "../text/hosts.ts";
import { walkedNames } from "../text/path-names.ts";

/** Forms in which values compare: two values are the same where one of their forms is. */

/** Maximum characters of a value that is kept or compared. */
export const MAX_FORM_LENGTH = 256;

/** Returns a text in the form in which it compares; undefined for one that is blank or too long. */
export function textForm(text: string): string | undefined {
  // Folding may shorten a text, and never to less than an eighteenth: what is far too long is not folded.
  if (text.length > MAX_FORM_LENGTH * 18) return undefined;
  const form = fold(text).replaceAll(/\s+/gu, " ");
  return form === "" || form.length > MAX_FORM_LENGTH ? undefined : form;
}

const GROUPED = /^[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$/;
const PLAIN_NUMBER = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?$/;
/** Signs of currencies and blanks around a number. */
const AROUND_NUMBER = /^[\p{Sc}\s]+|[\p{Sc}\s%]+$/gu;
const DECIMAL = /^(?<sign>[-+]?)0*(?<whole>\d*)(?:\.(?<fraction>\d*?)0*)?$/;
/** Digits that a double keeps whichever they are. */
const EXACT_DIGITS = 15;

/** Returns a number by its value: `1,500.00` and `1500` are the same. Undefined for a text that is no number, or is too long. */
export function numberForm(value: string | number): string | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? String(value === 0 ? 0 : value) : undefined;
  if (value.length > MAX_FORM_LENGTH) return undefined;
  const folded = fold(value);
  if (folded.length > MAX_FORM_LENGTH) return undefined;
  const text = folded.replaceAll(AROUND_NUMBER, "");
  const plain = GROUPED.test(text) ? text.replaceAll(",", "") : text;
  if (!PLAIN_NUMBER.test(plain)) return undefined;
  if (plain.replaceAll(/\D/g, "").length <= EXACT_DIGITS) return numberForm(Number(plain));
  // A double would make long numbers equal that differ.
  const { sign, whole, fraction } = DECIMAL.exec(plain)?.groups ?? {};
  if (whole === undefined) return undefined;
  return `${sign === "-" ? "-" : ""}${whole || "0"}${fraction ? `.${fraction}` : ""}`;
}

const DIGIT_GROUPS = /^\+?[\d\s()./-]{6,40}$/;
const IBAN = /^[a-z]{2}\d{2}(?:[ -]?[a-z0-9]){8,32}$/;
const MIN_DIGITS = 6;
/** IP addresses and dates, whose separators tell what they are. */
const NO_ACCOUNT = /^(?:\d{1,3}(?:\.\d{1,3}){3}(?:\/\d+)?|\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})$/;

/** Returns an account or phone number without its separators; undefined for another text. */
export function accountForm(text: string): string | undefined {
  const folded = fold(text);
  if (IBAN.test(folded)) return folded.replaceAll(/[ -]/g, "");
  if (!DIGIT_GROUPS.test(folded) || NO_ACCOUNT.test(folded)) return undefined;
  const digits = folded.replaceAll(/\D/g, "");
  return digits.length < MIN_DIGITS ? undefined : digits;
}

const WWW = /^www\.(?=.+\.)/;

/** Returns the host of a URL, or of a host with or without a port and a path, without `www.`; undefined as `hostOf` of `text/hosts.ts`. */
export const hostOf = (text: string): string | undefined => urlHostOf(text)?.replace(WWW, "");

const HAS_PARENT = /(?:^|\/)\.\.(?:\/|$)/;
/** A scheme, drive, server, home or variable: `..` after one leads where only the program that reads the path knows. */
const OWN_PLACE = /^(?:[a-z][a-z0-9+.-]*:|\/\/|~)|[$`%]/;
const SCHEME = /^[a-z][a-z0-9+.-]*:\/\//;
/** Dots and slashes that do not show. */
const ESCAPED = /%(?:2[ef]|5c)/;

/** Returns a path without `.` and `..`, doubled and closing slashes, and with forward ones; undefined for a blank or too long one, and where programs differ in what it names. */
export function pathForm(text: string): string | undefined {
  const written = textForm(text)?.replaceAll("\\", "/");
  if (written === undefined || (SCHEME.test(written) && ESCAPED.test(written))) return undefined;
  const plain = written.replace(/^file:\/\//, "");
  if (HAS_PARENT.test(plain) && OWN_PLACE.test(plain)) return undefined;
  const isRooted = plain.startsWith("/");
  const path = walkedNames(plain.split("/"), isRooted).join("/");
  if (path === "") return isRooted ? "/" : undefined;
  return isRooted ? `/${path}` : path;
}

/** Lists the folders that hold a path, in the form in which paths compare, without the root and those above an unknown folder. */
export function foldersOf(path: string): readonly string[] {
  const folders: string[] = [];
  for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) folders.push(path.slice(0, at));
  return folders.filter((folder) => !HAS_PARENT.test(`${folder.slice(folder.lastIndexOf("/") + 1)}/`));
}

/** Returns a URL without its fragment, and any name without its closing slash; undefined for one that is blank or too long. */
export function urlForm(text: string): string | undefined {
  const form = textForm(text);
  if (form === undefined) return undefined;
  const whole = SCHEME.test(form) ? form.replace(/#\S*$/, "") : form;
  return whole.replace(/\/$/, "") || undefined;
}
