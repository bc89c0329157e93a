import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import { stored } from "../store/database.ts";
import { readActorNames } from "../store/sql/read-actor-names.ts";

/** Returns the name of an id, as it is shown beside the id; undefined for an id without a name. */
export type NameOf = (id: string | null | undefined) => string | undefined;

/** Names that are cached, and milliseconds until they are read again: a watch of old escalations asks for the same few. */
const CACHED_NAMES = 10_000;
const CACHE_MS = 1_000;

/** Names of people, keys and credentials: a person's given name, verified email address or name, a key's owner or name. */
export class ActorNames {
  readonly #pool: Pool;
  // By size: with a maximum of entries the room for all of them is taken at once.
  readonly #known = new LRUCache<string, string>({ maxSize: CACHED_NAMES, sizeCalculation: () => 1, ttl: CACHE_MS });

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Finds the names of some ids. `system`, and people from before they had issuers, have none. Rejects with STORE_UNAVAILABLE. */
  async find(workspaceId: string, ids: Iterable<string | null | undefined>): Promise<NameOf> {
    const wanted = [...new Set(ids)].filter((id) => typeof id === "string");
    const keyOf = (id: string): string => `${workspaceId} ${id}`;
    const found = new Map<string, string>();
    for (const id of wanted) {
      const known = this.#known.get(keyOf(id));
      if (known !== undefined) found.set(id, known);
    }
    const missing = wanted.filter((id) => !found.has(id));
    if (missing.length > 0) {
      for (const [id, name] of await this.#read(workspaceId, missing)) {
        found.set(id, name);
        this.#known.set(keyOf(id), name);
      }
    }
    return (id) => (typeof id === "string" ? found.get(id) : undefined);
  }

  async #read(workspaceId: string, ids: readonly string[]): Promise<readonly (readonly [string, string])[]> {
    const values = [workspaceId, ids];
    const { rows } = await stored(this.#pool.query<{ id: string; name: string | null }>({ ...readActorNames, values }));
    return rows.flatMap(({ id, name }) => ((name ?? "") === "" ? [] : [[id, name as string] as const]));
  }
}
