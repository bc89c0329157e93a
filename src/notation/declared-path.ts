import { argumentPath, argumentSteps, resultSteps } from "./argument-path.ts";

/** Members of a tool's registration whose paths say what its results and arguments mean for provenance. */
export const DECLARED = ["trusted_fields", "free_fields", "session_arguments", "session_fields"] as const;
export type Declared = (typeof DECLARED)[number];

/** Returns a path of a declaration in its shortest notation; undefined for a text that is none. */
export function declaredPath(member: Declared, text: string): string | undefined {
  if (!text.isWellFormed() || text.includes("\u0000")) return undefined;
  const steps = member === "session_arguments" ? argumentSteps(text) : resultSteps(text);
  return steps === undefined ? undefined : argumentPath(steps);
}

/** Returns the rest of a sentence about a text that is no path of a declaration. */
export function notDeclaredPath(member: Declared): string {
  const inList = member === "session_arguments" ? "" : ", or `[].name` in a result that is a list";
  return `is not a path: write \`name\`, \`a.b\` or \`lines[].b\`${inList}`;
}
