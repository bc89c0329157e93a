import { createHash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { toolKey, toolNameFault } from "../policy/names.ts";
import { canonicalJson, digestOf } from "../tree/canonical.ts";
import { isStorableJson } from "./checked-text.ts";
import { holdsUnseen } from "./mcp-changes.ts";
import { reservedNameFault } from "./mcp-method-tools.ts";
import { schemaFault } from "./tools.ts";

/** Kinds of definitions that a server gives to models, in the order in which they are shown. */
export const MCP_DEFINITION_KINDS = ["tool", "prompt", "resource", "resource_template", "instructions"] as const;

/** Kind of a definition. */
export type McpDefinitionKind = (typeof MCP_DEFINITION_KINDS)[number];

/** A listed definition in the form in which it is pinned. */
export interface McpCandidate {
  readonly kind: McpDefinitionKind;
  /** Name of a tool or prompt, URI of a resource, URI template; empty for instructions. */
  readonly name: string;
  /** Form of the name in which two definitions of one kind are the same. */
  readonly key: string;
  readonly definition: JsonObject;
  readonly text: string;
  readonly digest: string;
}

/** A listed definition that cannot be pinned. */
export interface McpUnusable {
  readonly name: string;
  readonly key: string;
  readonly fault: string;
}

const MAX_DEFINITION_BYTES = 262_144;
const MAX_DEPTH = 64;
const MAX_PROMPT_NAME = 256;
/** Bytes of a URI: an index of PostgreSQL holds no more than some 2,700. */
const MAX_URI_BYTES = 2_000;
/** Member that identifies a definition of each kind. */
const NAME_MEMBER = { tool: "name", prompt: "name", resource: "uri", resource_template: "uriTemplate" } as const;
/** Members that are pinned of tools from before whole definitions were. */
const PARTIAL = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"] as const;
/** Control characters, line separators, and characters that change or hide the direction or presence of text. */
const DISGUISING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\u{e0000}-\u{e007f}]/u;
const TIME = /^\d{4}-\d{2}-\d{2}(T[\d:.]{1,18}(Z|[+-]\d{2}:\d{2})?)?$/;

/** Reads a listed definition, or the reason why it cannot be pinned. `server` is the server's name. */
export function candidateFrom(server: string, kind: McpDefinitionKind, listed: JsonObject): McpCandidate | McpUnusable {
  const name = nameOf(kind, listed);
  const key = kind === "tool" ? toolKey(`${server}.${name}`) : name;
  const fault = mcpNameFault(server, kind, name) ?? shapeFault(kind, listed);
  if (fault !== undefined) return { name, key, fault };
  const definition = pinnedPart(kind, listed);
  const text = canonicalJson(definition);
  if (Buffer.byteLength(text) > MAX_DEFINITION_BYTES) {
    return { name, key, fault: `its definition has more than ${MAX_DEFINITION_BYTES} bytes` };
  }
  return { kind, name, key, definition, text, digest: createHash("sha256").update(text).digest("hex") };
}

/** Returns the member that identifies a listed definition; an empty text if it is missing, and for instructions. */
export function nameOf(kind: McpDefinitionKind, listed: JsonObject): string {
  if (kind === "instructions") return "";
  const name = ownValue(listed, NAME_MEMBER[kind]);
  return typeof name === "string" ? name : "";
}

/** Explains, as the rest of a sentence about a definition, why its name or URI cannot be pinned; undefined if it can. */
export function mcpNameFault(server: string, kind: McpDefinitionKind, name: string): string | undefined {
  if (kind === "instructions") return undefined;
  if (kind === "tool") {
    const reserved = reservedNameFault(name);
    if (reserved !== undefined) return reserved;
    if (name !== name.trim()) return "its name begins or ends with white space";
    const fault = toolNameFault(`${server}.${name}`);
    return fault === undefined ? undefined : `its name ${fault}`;
  }
  const what = `its \`${NAME_MEMBER[kind]}\``;
  if (name.trim() === "") return `${what} is missing`;
  if (holdsUnseen(name)) return `${what} holds characters that do not print`;
  if (kind === "prompt") {
    return name.length > MAX_PROMPT_NAME ? `${what} has more than ${MAX_PROMPT_NAME} characters` : undefined;
  }
  return Buffer.byteLength(name) > MAX_URI_BYTES ? `${what} has more than ${MAX_URI_BYTES} bytes` : undefined;
}

/** Returns the digest of a tool's definition by the members that were pinned before whole definitions were. */
export function partialDigest({ definition }: McpCandidate): string {
  const part: JsonObject = {};
  for (const member of PARTIAL) {
    const value = ownValue(definition, member);
    if (value !== undefined) part[member] = value;
  }
  return digestOf(part);
}

/**
 * Returns the digest of a tool's definition without `execution`, which the stateless generation does not list; undefined for a
 * definition without it.
 */
export function statelessDigest({ kind, definition }: McpCandidate): string | undefined {
  if (kind !== "tool" || !Object.hasOwn(definition, "execution")) return undefined;
  const { execution: _, ...rest } = definition;
  return digestOf(rest);
}

/** Returns what is pinned: the whole definition, of resources without the size and time of their content. */
function pinnedPart(kind: McpDefinitionKind, listed: JsonObject): JsonObject {
  if (kind !== "resource" && kind !== "resource_template") return listed;
  const { size, annotations, ...rest } = listed;
  // Of another type they could carry a text for the model.
  const kept = size === undefined || typeof size === "number" ? {} : { size };
  if (annotations === undefined) return { ...rest, ...kept };
  if (!isJsonObject(annotations)) return { ...rest, ...kept, annotations };
  const { lastModified, ...others } = annotations;
  const isTime = lastModified === undefined || (typeof lastModified === "string" && TIME.test(lastModified));
  return { ...rest, ...kept, annotations: isTime ? others : annotations };
}

function shapeFault(kind: McpDefinitionKind, listed: JsonObject): string | undefined {
  if (isDeeper(listed, MAX_DEPTH)) return `its definition nests more than ${MAX_DEPTH} levels deep`;
  if (!isStorableJson(listed)) return "its definition holds U+0000 or half of a surrogate pair";
  if (kind === "instructions") return undefined;
  const { name, title, description, inputSchema, outputSchema, annotations } = listed;
  for (const [member, value] of Object.entries({ title, description })) {
    if (value !== undefined && typeof value !== "string") return `its \`${member}\` is not a string`;
  }
  if (typeof name === "string" && DISGUISING.test(name)) return "its `name` holds characters that do not print";
  if (kind !== "tool") return undefined;
  for (const [member, value] of Object.entries({ outputSchema, annotations })) {
    if (value !== undefined && !isJsonObject(value)) return `its \`${member}\` is not an object`;
  }
  if (!isJsonObject(inputSchema)) return "its `inputSchema` is not an object";
  return schemaFault(inputSchema);
}

function isDeeper(value: JsonValue | undefined, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  return Object.values(value).some((each) => isDeeper(each, levels - 1));
}
