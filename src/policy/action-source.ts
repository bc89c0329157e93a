import type { JsonObject } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "./json-value.ts";
import { normaliseName } from "./names.ts";

/** Returns the arguments that rules read: `metadata.arguments` if it is an object, else the metadata itself. */
export function argumentsFrom(metadata: JsonObject | undefined): JsonObject | undefined {
  if (metadata === undefined) return undefined;
  const nested = ownValue(metadata, "arguments");
  return isJsonObject(nested) ? nested : metadata;
}

/**
 * Returns the name of the tool that an action calls: the request's `tool`, else `metadata.tool`, else the action type if it
 * is a registered tool's name, as written or normalised. Blank names count as missing; undefined if all are missing.
 */
export function toolNameFrom(
  tool: string | undefined,
  metadata: JsonObject | undefined,
  actionType: string,
  isRegistered: (name: string) => boolean,
): string | undefined {
  if (tool !== undefined && tool.trim() !== "") return tool.trim();
  const named = metadata === undefined ? undefined : ownValue(metadata, "tool");
  if (typeof named === "string" && named.trim() !== "") return named.trim();
  const asWritten = actionType.trim();
  if (isRegistered(asWritten)) return asWritten;
  const normalised = normaliseName(actionType);
  return isRegistered(normalised) ? normalised : undefined;
}
