import { createHash } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import type { ToolSchema } from "../policy/types.ts";
import type { Action } from "../state/types.ts";
import { canonicalJson } from "../tree/canonical.ts";

/** The digest that an approval is bound to. */
export interface ActionDigest {
  /** SHA-256, lower-case hexadecimal. */
  readonly digest: string;
  /** Top-level members of the action's metadata that the digest leaves out. */
  readonly ignored: readonly string[];
}

const NONE: readonly string[] = [];

/**
 * Computes the digest that an approval is bound to: SHA-256 over the RFC 8785 form of everything in an action that rules can
 * read. Top-level members of the metadata whose names are in `ignores` are left out.
 */
export function actionDigest(
  action: Action,
  toolName: string | undefined,
  tool: ToolSchema | undefined,
  ignores: readonly string[],
): ActionDigest {
  const { metadata } = action;
  const ignored = metadata === undefined ? NONE : ignores.filter((name) => Object.hasOwn(metadata, name));
  // INVARIANT: members stand in the order of RFC 8785, so that this is the canonical text.
  const text =
    `{"action_content":${JSON.stringify(action.actionContent)},"action_type":${JSON.stringify(action.actionType)},` +
    `"agent_id":${jsonText(action.agentId)},"grant_id":${jsonText(action.grantId)},` +
    `"intent_contract_id":${jsonText(action.intentContractId)},"metadata":${metadataText(action, ignored)},` +
    `"on_behalf_of":${jsonText(action.onBehalfOf)},"tool":${jsonText(toolName)},"tool_version":${tool?.version ?? null}}`;
  return { digest: createHash("sha256").update(text).digest("hex"), ignored };
}

const jsonText = (value: string | undefined): string => (value === undefined ? "null" : JSON.stringify(value));

function metadataText({ metadata, metadataText: text }: Action, ignored: readonly string[]): string {
  if (metadata === undefined) return "null";
  if (ignored.length === 0) return text;
  return canonicalJson(
    Object.fromEntries(Object.entries(metadata).filter(([name]) => !ignored.includes(name))) as JsonObject,
  );
}
