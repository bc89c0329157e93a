import { doInTurns, type Work } from "../../async/work.ts";
import { dataText } from "../../semantic/frame.ts";
import type { WorkspaceState } from "../../state/workspace.ts";

/** Names of a workspace that a model may find in a question. */
export interface OfferedNames {
  readonly agents: readonly string[];
  readonly tools: readonly string[];
  readonly mandates: readonly string[];
}

/** Maximum number of names of one kind. */
const MAX_NAMES = 100;
/** Maximum characters of a name; a longer one is left out, since a cut one names nothing. */
const MAX_NAME = 100;
/** Maximum bytes of the names of one kind as JSON. */
const MAX_BYTES = 8_192;

/** Chooses names of agents, tools and mandates in force: first those that share a word with the question. */
export async function offeredNames({ agents, policies }: WorkspaceState, question: string): Promise<OfferedNames> {
  const words = new Set(wordsOf(question));
  return {
    agents: await doInTurns(
      chosen(
        namesOf(agents.values(), ({ registration }) => registration.name),
        words,
      ),
    ),
    tools: await doInTurns(
      chosen(
        namesOf(policies.tools.values(), ({ schema }) => schema.name),
        words,
      ),
    ),
    mandates: await doInTurns(
      chosen(
        namesOf(policies.mandates.values(), ({ compiled }) => compiled.name),
        words,
      ),
    ),
  };
}

const wordsOf = (text: string): readonly string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

function* namesOf<T>(items: Iterable<T>, nameOf: (item: T) => string): Iterable<string> {
  for (const item of items) yield nameOf(item);
}

function* chosen(names: Iterable<string>, words: ReadonlySet<string>): Work<readonly string[]> {
  const related = new Set<string>();
  const others = new Set<string>();
  for (const name of names) {
    yield;
    if (name.length > MAX_NAME) continue;
    const list = wordsOf(name).some((word) => words.has(word)) ? related : others;
    if (list.size < MAX_NAMES) list.add(name);
  }
  let bytes = 0;
  return [...related, ...others].slice(0, MAX_NAMES).filter((name) => {
    bytes += Buffer.byteLength(dataText(name));
    return bytes <= MAX_BYTES;
  });
}
