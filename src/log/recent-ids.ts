/** Remembers the last ids it was given, between `capacity` and twice as many. */
export interface RecentIds {
  add(id: string): void;
  has(id: string): boolean;
}

/** Creates the memory: two sets, of which the older is forgotten when the younger is full. */
export function createRecentIds(capacity: number): RecentIds {
  let young = new Set<string>();
  let old = new Set<string>();
  return {
    add(id) {
      if (young.size >= capacity) {
        old = young;
        young = new Set();
      }
      young.add(id);
    },
    has: (id) => young.has(id) || old.has(id),
  };
}
