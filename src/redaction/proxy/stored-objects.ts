import { timingSafeEqual } from "node:crypto";
import type { Work } from "../../async/work.ts";
import { invalidField } from "../../errors.ts";
import type { Mark } from "../mark-keys.ts";
import { isMap, type Json, type JsonMap } from "./protocol.ts";

/** Guard of the objects that the model's service stores in a shared account: each workspace can use only its own. */
export interface StoredObjects {
  /** Adds the workspace's mark to the ids in a response or an event of `/responses`. */
  mark(json: Json): Work<Json>;
  /** Removes the marks from a request. Throws INVALID_FIELD for a reference to an object without the workspace's mark. */
  open(body: Json): Json;
}

/** Members with the id of a response, or of an item in a response. */
const ID_MEMBERS = new Set(["id", "item_id", "response_id", "previous_response_id", "approval_request_id"]);
/** Members with ids of files, vector stores and containers, which cannot be created through the proxy. */
const FOREIGN_MEMBERS = new Set(["file_id", "file_ids", "vector_store_id", "vector_store_ids", "container"]);
/** Members with the caller's own names or text. */
const CALLER_MEMBERS = new Set(["metadata", "parameters", "schema", "json_schema", "arguments", "variables"]);
const MARK_BYTES = 12;
const MARKED = /^(.+)\.([\w-]{16})$/;
const SHARED = "in the account that workspaces share";

/** No guard, for an account that belongs to one workspace or caller. */
export const OWN_OBJECTS: StoredObjects = {
  // biome-ignore lint/correctness/useYield: nothing to do takes no time
  *mark(json) {
    return json;
  },
  open: (body) => body,
};

/** Creates the guard of a workspace from its mark, which every process has. */
export function createStoredObjects(digestOf: Mark): StoredObjects {
  const markOf = (id: string): string => digestOf(`stored object ${id}`).subarray(0, MARK_BYTES).toString("base64url");

  /** Returns the id without its mark; undefined if it lacks this workspace's mark. */
  const openId = (text: string): string | undefined => {
    const [, id, mark] = MARKED.exec(text) ?? [];
    if (id === undefined || mark === undefined) return undefined;
    return timingSafeEqual(Buffer.from(mark), Buffer.from(markOf(id))) ? id : undefined;
  };

  const markText = (name: string, text: string): string =>
    ID_MEMBERS.has(name) && text !== "" ? `${text}.${markOf(text)}` : text;

  const mark = function* (json: Json): Work<Json> {
    if (Array.isArray(json)) {
      const items: Json[] = [];
      for (const item of json) items.push(yield* mark(item));
      return items;
    }
    if (!isMap(json)) return json;
    const members: [string, Json][] = [];
    for (const [name, value] of Object.entries(json)) {
      if (typeof value === "string") members.push([name, markText(name, value)]);
      else members.push([name, CALLER_MEMBERS.has(name) ? value : yield* mark(value)]);
    }
    yield;
    return Object.fromEntries(members);
  };

  const openMember = (path: string, name: string, value: Json): Json => {
    if (CALLER_MEMBERS.has(name)) return value;
    if (FOREIGN_MEMBERS.has(name)) assertNoForeignId(path, value);
    if (name === "audio" && isMap(value) && typeof value.id === "string") throw unknownObject(`${path}.id`);
    if (typeof value === "string") return ID_MEMBERS.has(name) ? (openId(value) ?? value) : value;
    return openValue(path, value);
  };

  const openValue = (path: string, value: Json): Json => {
    if (Array.isArray(value)) return mapItems(value, (item, index) => openValue(`${path}[${index}]`, item));
    if (!isMap(value)) return value;
    if (refersToItem(value) && openId(String(value.id)) === undefined) throw unknownObject(`${path}.id`);
    return mapMembers(value, (name, member) => openMember(`${path}.${name}`, name, member));
  };

  return {
    mark,
    open(body) {
      if (!isMap(body)) return body;
      const { previous_response_id: previous, conversation = null, prompt } = body;
      if (conversation !== null) {
        throw invalidField("conversation", `is stored ${SHARED}; continue from \`previous_response_id\``);
      }
      if (isMap(prompt)) throw invalidField("prompt", `is stored ${SHARED}; send its text`);
      if (typeof previous === "string" && openId(previous) === undefined) throw unknownObject("previous_response_id");
      return mapMembers(body, (name, value) => openMember(name, name, value));
    },
  };
}

/** Returns the object itself if no member changes: few do, and a large object takes long to build. */
function mapMembers(json: JsonMap, map: (name: string, value: Json) => Json): JsonMap {
  const changed = new Map<string, Json>();
  for (const name of Object.keys(json)) {
    const value = json[name] as Json;
    const mapped = map(name, value);
    if (mapped !== value) changed.set(name, mapped);
  }
  if (changed.size === 0) return json;
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => [name, changed.has(name) ? (changed.get(name) as Json) : value]),
  );
}

function mapItems(items: readonly Json[], map: (item: Json, index: number) => Json): Json {
  const mapped = items.map(map);
  return mapped.some((item, index) => item !== items[index]) ? mapped : (items as Json);
}

const unknownObject = (field: string) =>
  invalidField(field, "names nothing that this workspace created through the proxy");

/** True for an item that refers to a stored one: a reference, or reasoning without its text. */
function refersToItem(item: JsonMap): boolean {
  if (item.type === "item_reference") return true;
  return item.type === "reasoning" && typeof item.id === "string" && typeof item.encrypted_content !== "string";
}

/**
 * Throws INVALID_FIELD for an id of an object that the proxy cannot have created. Ignores other JSON, which may be part of a
 * schema.
 */
function assertNoForeignId(path: string, value: Json): void {
  const isId = (item: Json): boolean => typeof item === "string" && item !== "";
  if (isId(value) || (Array.isArray(value) && value.some(isId))) {
    throw invalidField(path, `names an object ${SHARED}; to use it, set the workspace's own model service`);
  }
}
