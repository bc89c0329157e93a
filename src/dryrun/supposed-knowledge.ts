import type { Work } from "../async/work.ts";
import { BoundedValues } from "../provenance/bounded-values.ts";
import { findInText } from "../provenance/found-values.ts";
import { findInResult } from "../provenance/result-values.ts";
import type { ObservedSource, SessionKnowledge, Sighting } from "../provenance/sources.ts";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** Content that a dry run supposes to be seen in the session of its actions. */
export interface SeenContent {
  readonly source: "prompt" | "result";
  /** Tool of an allowed call that returned a result; undefined for a result of no such call. */
  readonly tool: string | undefined;
  /** Text, or the text of JSON. */
  readonly content: string;
}

/** Returns actions as they would be in a session that saw some contents and nothing else; the actions themselves without contents. */
export function* withSeen(
  state: WorkspaceState,
  actions: readonly Action[],
  seen: readonly SeenContent[],
): Work<readonly Action[]> {
  if (seen.length === 0) return actions;
  const knowledge = yield* knowledgeFrom(state, seen);
  return actions.map((action) => ({ ...action, knowledge }));
}

/** Reads contents as a session does, the results by the registrations of their tools. */
export function* knowledgeFrom(
  { policies }: Pick<WorkspaceState, "policies">,
  seen: readonly SeenContent[],
): Work<SessionKnowledge> {
  const found = new Map<string, Sighting[]>();
  let isFull = false;
  const add = (source: ObservedSource, tool: string | undefined, forms: BoundedValues): void => {
    isFull ||= forms.isCut;
    for (const form of forms) {
      const sightings = found.get(form);
      if (sightings === undefined) found.set(form, [{ source, tool }]);
      else sightings.push({ source, tool });
    }
  };
  for (const { source, tool, content } of seen) {
    if (source === "prompt") {
      const forms = new BoundedValues();
      yield* forms.collect((into) => findInText(content, into));
      add("prompt", undefined, forms);
      continue;
    }
    const schema = tool === undefined ? undefined : policies.tool(tool)?.schema;
    const values = yield* findInResult(schema?.provenance, content);
    for (const kept of ["lookup", "session", "untrusted"] as const) add(kept, schema?.name ?? tool, values[kept]);
  }
  return {
    hasPrompt: seen.some(({ source }) => source === "prompt"),
    isFull,
    sightingsOf: (form) => found.get(form) ?? [],
    isApproved: () => false,
  };
}
