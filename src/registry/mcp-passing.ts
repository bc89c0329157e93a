import { invalidField } from "../errors.ts";
import { isTableMethod } from "./mcp-methods.ts";

/** Members of requests and messages that pass to and from an MCP server on its registration's word. */
export interface McpPassing {
  /** Methods that pass undecided besides those of the gateway's table, sorted. */
  readonly passMethods: readonly string[];
  /** Keys of a request's `_meta` that are passed on besides those of the specification, sorted. */
  readonly passMeta: readonly string[];
  /** Kinds of personal values that are replaced in the server's messages, sorted. */
  readonly scrub: readonly string[];
}

const METHOD = /^[A-Za-z0-9_$.-]+(\/[A-Za-z0-9_$.-]+)*$/;
const META_KEY = /^[\x21-\x7e]+$/;
/** Keys of `_meta` in which the control plane itself speaks. */
const OWN_META = /^agentcontrol[./]/i;

/** Checks methods that pass undecided. Throws INVALID_FIELD. */
export function checkedPassMethods(methods: readonly string[]): readonly string[] {
  return checkedList("pass_methods", methods, (method) => {
    if (!METHOD.test(method)) return "must be the name of a method: letters, digits and `_$.-`, in parts between `/`";
    if (isTableMethod(method)) return `is settled by the gateway's own table: \`${method}\` cannot pass undecided`;
    return undefined;
  });
}

/** Checks keys of `_meta` that are passed on. Throws INVALID_FIELD. */
export function checkedPassMeta(keys: readonly string[]): readonly string[] {
  return checkedList("pass_meta", keys, (key) => {
    if (!META_KEY.test(key)) return "must be a key of `_meta`: visible ASCII without blanks";
    if (OWN_META.test(key)) return `is a key of the control plane: \`${key}\` never reaches a server`;
    return undefined;
  });
}

/** Checks kinds of personal values. Throws INVALID_FIELD, which lists the known kinds. */
export function checkedScrub(kinds: readonly string[], known: readonly string[]): readonly string[] {
  const choices = known.map((kind) => `\`${kind}\``).join(", ");
  return checkedList("scrub", kinds, (kind) => (known.includes(kind) ? undefined : `must be one of ${choices}`));
}

function checkedList(
  field: string,
  given: readonly string[],
  faultOf: (text: string) => string | undefined,
): readonly string[] {
  for (const [index, text] of given.entries()) {
    const fault = given.indexOf(text) === index ? faultOf(text) : "is given more than once";
    if (fault !== undefined) throw invalidField(`${field}[${index}]`, fault);
  }
  return [...given].sort();
}
