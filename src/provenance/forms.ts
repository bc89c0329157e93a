import { fold, plainText } from "../text/fold.ts";
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

/** Returns a number by its value: `1,500.00` and `1500` are the same. Undefined for a text that is no number. */
export function numberForm(value: string | number): string | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? String(value === 0 ? 0 : value) : undefined;
  const text = fold(value).replaceAll(AROUND_NUMBER, "");
  const plain = GROUPED.test(text) ? text.replaceAll(",", "") : text;
  if (!PLAIN_NUMBER.test(plain)) return undefined;
  // A double would make long numbers of accounts equal that differ.
  if (/^\d{16,}$/.test(plain)) return plain;
  return numberForm(Number(plain));
}

const DIGIT_GROUPS = /^\+?[\d\s()./-]{6,40}$/;
const IBAN = /^[a-z]{2}\d{2}(?:[ -]?[a-z0-9]){8,32}$/;
const MIN_DIGITS = 6;

/** Returns an account or phone number without its separators; undefined for another text. */
export function accountForm(text: string): string | undefined {
  const folded = fold(text);
  if (IBAN.test(folded)) return folded.replaceAll(/[ -]/g, "");
  if (!DIGIT_GROUPS.test(folded)) return undefined;
  const digits = folded.replaceAll(/\D/g, "");
  return digits.length < MIN_DIGITS ? undefined : digits;
}

const WWW = /^www\.(?=.+\.)/;

/** Returns the host of a URL, or of a host with or without a port and a path, without `www.`; undefined as `hostOf` of `text/hosts.ts`. */
export const hostOf = (text: string): string | undefined => urlHostOf(plainText(text))?.replace(WWW, "");

/** Returns a path without `.` and `..`, doubled and closing slashes, and with forward ones; undefined for a blank or too long one. */
export function pathForm(text: string): string | undefined {
  const folded = textForm(text)
    ?.replaceAll("\\", "/")
    .replace(/^file:\/\//, "");
  // A URL may write dots and slashes so that they do not show.
  if (folded === undefined || (/^file:/iu.test(text.trim()) && /%(?:2[ef]|5c)/u.test(folded))) return undefined;
  const isRooted = folded.startsWith("/");
  const path = walkedNames(folded.split("/"), isRooted).join("/");
  if (path === "") return isRooted ? "/" : undefined;
  return isRooted ? `/${path}` : path;
}

/** Lists the folders that hold a path, in the form in which paths compare, without the root. */
export function foldersOf(path: string): readonly string[] {
  const folders: string[] = [];
  for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) folders.push(path.slice(0, at));
  return folders;
}

/** Returns a URL without its fragment and closing slash. */
export const urlForm = (text: string): string | undefined => textForm(text)?.replace(/#.*$/, "").replace(/\/$/, "");
