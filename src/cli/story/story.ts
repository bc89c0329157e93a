import type { JsonMembers } from "../verify/index.ts";
import { textAt } from "./members.ts";
import { type Subject, subjectOf } from "./subject.ts";
import { toldBy } from "./tellers.ts";

/** One entry of the log that has to do with a decision. */
export interface StoryItem {
  readonly index: number;
  /** RFC 3339 UTC. */
  readonly at: string;
  /** The key that made it. */
  readonly by: string;
  readonly text: string;
}

/** Why a decision came out as it did, by the entries of its log. */
export interface Story {
  readonly decision: JsonMembers;
  /** What held when it was made, oldest first. */
  readonly before: readonly StoryItem[];
  /** What became of it, oldest first. */
  readonly after: readonly StoryItem[];
  /** What the decision names and no entry before it explains. */
  readonly unexplained: readonly string[];
}

/** Gathers a story. MUST see every entry of the log, in order. */
export interface StoryTeller {
  see(entry: JsonMembers): void;
  story(): Story;
}

/** Changes after the decision that say nothing about it: what then held for others. */
const ONLY_BEFORE = /^(settings|trust|key|member|registered|mandate|tool)\b/;

function unexplainedBy({ agentIds, mandates, tool, authorityIds }: Subject, about: ReadonlySet<string>): string[] {
  const needed = [
    ...[...agentIds].map((id) => [`registered ${id}`, `the registration of agent ${id}`]),
    ...[...mandates].map(([id, { version }]) => [`mandate ${id}`, `version ${String(version)} of mandate ${id}`]),
    ...[...authorityIds].map((id) => [`made ${id}`, `${id}`]),
    ...(tool === undefined ? [] : [["tool", `version ${String(tool.version)} of tool \`${tool.name}\``]]),
  ];
  return needed.filter(([key = ""]) => !about.has(key)).map(([, text = ""]) => text);
}

/** Creates what tells the story of a decision, from the body of its entry. */
export function createStoryTeller(decision: JsonMembers): StoryTeller {
  const subject = subjectOf(decision);
  const before = new Map<string, StoryItem>();
  const after = new Map<string, StoryItem>();
  return {
    see(entry) {
      const index = Number(entry.seq);
      if (index === subject.index) return;
      const isBefore = index < subject.index;
      const items = isBefore ? before : after;
      const by = textAt(entry, "by") || textAt(entry, "key_id");
      for (const { about, text } of toldBy(entry, subject)) {
        if (!isBefore && ONLY_BEFORE.test(about)) continue;
        // Deleted first, so that what replaces an item stands at its own place.
        items.delete(about);
        items.set(about, { index, at: textAt(entry, "at"), by, text });
      }
    },
    story: () => ({
      decision,
      before: [...before.values()],
      after: [...after.values()],
      unexplained: unexplainedBy(subject, new Set(before.keys())),
    }),
  };
}
