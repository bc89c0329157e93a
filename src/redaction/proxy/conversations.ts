import type { Placeholders } from "../text/types.ts";

/** Placeholders that are remembered from one request of a conversation to the next, in this process. */
export interface Conversations {
  /** The placeholders of a conversation; undefined when there are none, or none any more. */
  get(key: string): Placeholders | undefined;
  keep(key: string, placeholders: Placeholders): void;
}

/** Milliseconds after which a conversation without requests is forgotten. */
const IDLE_MS = 3_600_000;
/** Conversations that are remembered at once. */
const MAX_CONVERSATIONS = 10_000;
/** Values of one conversation; one with more starts anew. */
const MAX_VALUES = 10_000;

/** Creates the memory. What it forgets stays in texts as the placeholder that it is, and never becomes another value. */
export function createConversations(now: () => number = () => performance.now()): Conversations {
  const kept = new Map<string, { readonly placeholders: Placeholders; readonly until: number }>();
  return {
    get(key) {
      const found = kept.get(key);
      if (found === undefined || found.until < now() || found.placeholders.size > MAX_VALUES) return undefined;
      return found.placeholders;
    },
    keep(key, placeholders) {
      kept.delete(key);
      kept.set(key, { placeholders, until: now() + IDLE_MS });
      // The oldest are first: those that nobody asks for any more go with the next one that is kept.
      for (const [each, { until }] of kept) {
        if (until >= now() && kept.size <= MAX_CONVERSATIONS) return;
        kept.delete(each);
      }
    },
  };
}
