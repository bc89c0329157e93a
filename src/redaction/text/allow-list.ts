import { invalidField } from "../../errors.ts";
import { foldedForms, foldText } from "./fold.ts";

const DOMAIN = /^\*@([^@*\s]+)$/;

/** Whether what a detector found is no personal value. */
export type IsAllowed = (value: string) => boolean;

const domainOf = (address: string): string => address.slice(address.lastIndexOf("@") + 1);

/** Creates the test. Throws INVALID_FIELD for an empty entry, and for a `*` other than in `*@` and a domain. */
export function createAllowList(entries: readonly string[]): IsAllowed {
  const values = new Set<string>();
  const domains = new Set<string>();
  for (const [index, entry] of entries.entries()) {
    const text = foldText(entry);
    const domain = DOMAIN.exec(text)?.[1];
    if (text === "" || (text.includes("*") && domain === undefined)) {
      throw invalidField(`allow[${index}]`, "must be a value, or `*@` and a domain");
    }
    if (domain !== undefined) domains.add(domain);
    else for (const form of foldedForms(entry)) values.add(form);
  }
  if (values.size === 0 && domains.size === 0) return () => false;
  return (value) => {
    const text = foldText(value);
    return values.has(text) || (text.includes("@") && domains.has(domainOf(text)));
  };
}
