import type { JsonValue } from "@bufbuild/protobuf";
import type { Work } from "../../async/work.ts";
import { argumentSteps } from "../../notation/argument-path.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import type { Asked } from "./question.ts";
import { agentsNamed, findMandate, toolNamed } from "./subjects.ts";

/** Tests whether a text holds another, in any case. */
type Mentions = (part: string) => boolean;

/**
 * Tests whether every text in a question that a model made stands in the text it was made of, or is a name in the workspace. What a
 * model adds may be anything: a name of another workspace, or a secret. Such a question MUST NOT be answered or shown.
 */
export function* isGrounded(asked: Asked, text: string, state: WorkspaceState): Work<boolean> {
  const lower = text.toLowerCase();
  const mentions: Mentions = (part) => lower.includes(part.trim().toLowerCase());
  const isTool = (name = ""): boolean => mentions(name) || toolNamed(state, name) !== undefined;
  switch (asked.case) {
    case "may": {
      const { agent, tool, actionType = "", arguments: args = {} } = asked.value;
      if (!mentions(agent) && (yield* agentsNamed(state, agent)).length === 0) return false;
      return isTool(tool) && mentions(actionType) && (yield* areArgumentsGrounded(args, tool, mentions, state));
    }
    case "whoMay":
      return isTool(asked.value.tool) && mentions(asked.value.actionType ?? "");
    case "limits":
      return mentions(asked.value.agent) || (yield* agentsNamed(state, asked.value.agent)).length > 0;
    case "why":
      return mentions(asked.value.decisionId);
    case "changed":
      return mentions(asked.value.mandate) || findMandate(state, asked.value.mandate) !== undefined;
    case "neverFire":
    case "shadowed":
      return true;
  }
}

/** Tests the texts of arguments; their names may also be those of the tool's schema. */
function* areArgumentsGrounded(
  value: JsonValue,
  tool: string | undefined,
  mentions: Mentions,
  { policies }: WorkspaceState,
): Work<boolean> {
  const schema = tool === undefined ? undefined : policies.tool(tool)?.schema;
  const known = new Set(schema?.arguments.flatMap(({ path }) => argumentSteps(path) ?? []));
  const rest: JsonValue[] = [value];
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    yield;
    if (typeof next === "string" && !mentions(next)) return false;
    if (typeof next !== "object" || next === null) continue;
    if (!Array.isArray(next) && !Object.keys(next).every((name) => known.has(name) || mentions(name))) return false;
    rest.push(...Object.values(next));
  }
  return true;
}
