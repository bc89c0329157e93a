import { invalidField } from "../errors.ts";
import { comparableName, givenNameFault } from "../policy/names.ts";

/**
 * A person's name in the log: `oidc:`, the issuer, `|` and the subject, which together are one person for ever. An email address
 * or a user name may pass from one person to another, and two issuers may give the same one.
 */
const PERSON = /^oidc:(https?:\/\/[!-{}~]{1,500})\|([!-~]{1,255})$/;

/** A person as their issuer identifies them. */
export interface PersonKey {
  readonly issuer: string;
  readonly subject: string;
}

/** Returns a person's name in the log; undefined for claims that identify nobody. */
export function personName(issuer: unknown, subject: unknown): string | undefined {
  const name = `oidc:${String(issuer)}|${String(subject)}`;
  // A `|` in the issuer would let two people have one name.
  const isClear = typeof issuer === "string" && typeof subject === "string" && !issuer.includes("|");
  return isClear && PERSON.test(name) ? name : undefined;
}

/** Reads a person's name; undefined for any other text, such as the names that people had before they had issuers. */
export function personFromName(name: string): PersonKey | undefined {
  const [, issuer, subject] = PERSON.exec(name) ?? [];
  return issuer === undefined || subject === undefined ? undefined : { issuer, subject };
}

/** Beginning of the ids that the service gives people. */
const PERSON_ID = "per_";

/** Tests for the form of a person's id, which names a person without an issuer. */
export const isPersonId = (text: string): boolean => text.startsWith(PERSON_ID);

/** Beginnings of what the log calls keys, credentials, tokens and people, and its word for the service. */
const LOG_NAME = /^(?:(?:key|crd|fed|per)_|oidc:|system$)/;

/** Returns the owner of a key if it names a person; undefined for a label, which has no name of its own. */
export const personIn = (owner: string | null | undefined): string | undefined =>
  typeof owner === "string" && (isPersonId(owner) || personFromName(owner) !== undefined) ? owner : undefined;

/** Maximum characters of a label. */
const MAX_LABEL = 200;

/** Returns a text that may stand beside a person's name; undefined for one that could be mistaken for another. */
export function personLabel(text: unknown): string | undefined {
  if (typeof text !== "string" || text.length > MAX_LABEL || givenNameFault(text) !== undefined) return undefined;
  return text.trim();
}

/**
 * Returns the name that an admin gives a person, trimmed. Throws INVALID_FIELD for one that could be mistaken for another, or for an id
 * beside which it stands.
 */
export function givenPersonName(field: string, text: string): string {
  const fault = givenNameFault(text);
  if (fault !== undefined) throw invalidField(field, fault);
  if (LOG_NAME.test(comparableName(text)))
    throw invalidField(
      field,
      "must not begin as an id does: `key_`, `crd_`, `fed_`, `per_` or `oidc:`, nor be `system`",
    );
  return text.trim();
}

/** Mark before an owner's label among parties, which sets it apart from people and keys. */
const OWNER_MARK = "owner ";

/** Explains why a text is not the owner of a key, as the rest of a sentence about it; undefined for an owner. */
export function ownerFault(text: string): string | undefined {
  if (personFromName(text) !== undefined) return undefined;
  const compared = comparableName(text);
  if (compared.startsWith(PERSON_ID) && !isPersonId(text))
    return "must be the id of a person as the service wrote it, or a label that does not begin with `per_`";
  if (compared.startsWith("oidc:"))
    return "must name a person as `oidc:{issuer}|{subject}`, or be a label that does not begin with `oidc:`";
  if (text.length > MAX_LABEL) return `must have at most ${MAX_LABEL} characters, unless it names a person`;
  return givenNameFault(text);
}

/** Returns the party of a key's owner: equal for one person, and for spellings of one label. */
export const partyOfOwner = (owner: string): string =>
  personFromName(owner) === undefined ? OWNER_MARK + comparableName(owner) : owner;
