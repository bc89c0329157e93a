import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import { nextTurn } from "../async/turns.ts";
import { stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { readPersonalValues, type StoredPersonalValue } from "../store/sql/redaction.ts";
import { DETECTED_KINDS, type PersonalKind, type RegisteredValue } from "../text/personal-kinds.ts";
import { valuePlace } from "./mark-keys.ts";
import { type RevisedSettings, readSettings } from "./settings.ts";
import { compileScrubber, type Scrubber } from "./text/scrubber.ts";

/** A workspace's scrubber with the settings from which it was compiled. */
export interface WorkspaceScrubber {
  readonly scrubber: Scrubber;
  readonly settings: RevisedSettings;
}

/** Scrubbers of this process, by workspace. */
export interface Scrubbers {
  /**
   * Returns the scrubber for the current settings and values of a workspace. It reads their revision each time, so that a lost
   * message never lets a registered value through. It compiles on first use and after a change. Rejects with STORE_UNAVAILABLE
   * and ENCRYPTION_KEY_DIFFERS.
   */
  of(workspaceId: string): Promise<WorkspaceScrubber>;
  /**
   * Returns the scrubber for values of some kinds alone, whatever kinds the settings disable. Reads and rejects as `of` does.
   */
  ofKinds(workspaceId: string, kinds: readonly string[]): Promise<Scrubber>;
}

/** Parts of the scrubbers. */
export interface ScrubbersOptions {
  readonly pool: Pool;
  readonly encryptor: Encryptor;
}

/** Maximum number of compiled scrubbers, one for each workspace, and of the characters of all their registered values. */
const MAX_SCRUBBERS = 256;
const MAX_CHARACTERS = 33_554_432;
/** Maximum number of sets of kinds for which a workspace's scrubbers are kept. */
const MAX_KINDS = 16;
/** Values that are read and decrypted in one turn of the event loop. */
const VALUES_AT_ONCE = 250;

/** Decrypted values by id; a value never changes. */
type Values = ReadonlyMap<string, RegisteredValue>;

interface Compiled {
  readonly revision: number;
  readonly values: Promise<Values>;
  readonly scrubber: Promise<Scrubber>;
  /** Scrubbers for some kinds alone, by these kinds. */
  readonly byKinds: LRUCache<string, Promise<Scrubber>>;
}

/** Reads the values of a workspace and decrypts only the new ones. */
async function readValues({ pool, encryptor }: ScrubbersOptions, workspaceId: string, known: Values): Promise<Values> {
  const registered = new Map<string, RegisteredValue>();
  for (let after = ""; ; ) {
    const values = [workspaceId, after, VALUES_AT_ONCE];
    const { rows } = await stored(pool.query<StoredPersonalValue>({ ...readPersonalValues, values }));
    for (const { valueId, kind, sealedValue } of rows) {
      const open = (): string => encryptor.decrypt(workspaceId, valuePlace(valueId), sealedValue);
      registered.set(valueId, known.get(valueId) ?? { kind: kind as PersonalKind, value: open() });
    }
    after = rows.at(-1)?.valueId ?? "";
    if (rows.length < VALUES_AT_ONCE) return registered;
    await nextTurn();
  }
}

/** Returns the number of characters of registered values, for the bound of the cache. */
function charactersOf(values: Values): number {
  let sum = 1;
  for (const { value } of values.values()) sum += value.length;
  return Math.min(sum, MAX_CHARACTERS);
}

/** Creates the scrubbers. */
export function createScrubbers(options: ScrubbersOptions): Scrubbers {
  const cache = new LRUCache<string, Compiled>({ max: MAX_SCRUBBERS, maxSize: MAX_CHARACTERS });

  const compile = (workspaceId: string, settings: RevisedSettings, before: Compiled | undefined): Compiled => {
    const { revision, allow, disabledKinds } = settings;
    const kinds = DETECTED_KINDS.filter((kind) => !disabledKinds.includes(kind));
    const known: Promise<Values> = before?.values.catch(() => new Map()) ?? Promise.resolve(new Map());
    const values = known.then((each) => readValues(options, workspaceId, each));
    const scrubber = values.then((each) => compileScrubber({ registered: [...each.values()], allow, kinds }));
    return { revision, values, scrubber, byKinds: new LRUCache({ max: MAX_KINDS }) };
  };

  const compiledFor = (workspaceId: string, settings: RevisedSettings): Compiled => {
    const known = cache.get(workspaceId);
    if (known?.revision === settings.revision) return known;
    const compiled = compile(workspaceId, settings, known);
    cache.set(workspaceId, compiled, { size: 1 });
    // Its size is known once the values are read. A failure is handled by the reader.
    compiled.values.then(
      (values) => {
        if (cache.peek(workspaceId) === compiled) cache.set(workspaceId, compiled, { size: charactersOf(values) });
      },
      () => undefined,
    );
    return compiled;
  };

  /** Resolves as `scrubber` does. A failure forgets what was compiled. */
  const settled = async <T>(workspaceId: string, compiled: Compiled, scrubber: Promise<T>): Promise<T> => {
    try {
      return await scrubber;
    } catch (error) {
      if (cache.get(workspaceId) === compiled) cache.delete(workspaceId);
      throw error;
    }
  };

  return {
    async of(workspaceId) {
      const settings = await readSettings(options, workspaceId);
      const compiled = compiledFor(workspaceId, settings);
      return { scrubber: await settled(workspaceId, compiled, compiled.scrubber), settings };
    },

    async ofKinds(workspaceId, kinds) {
      const settings = await readSettings(options, workspaceId);
      const compiled = compiledFor(workspaceId, settings);
      const key = [...kinds].sort().join();
      const known = compiled.byKinds.get(key);
      if (known !== undefined) return settled(workspaceId, compiled, known);
      const scrubber = compiled.values.then((values) =>
        compileScrubber({
          registered: [...values.values()].filter(({ kind }) => kinds.includes(kind)),
          allow: settings.allow,
          kinds: DETECTED_KINDS.filter((kind) => kinds.includes(kind)),
        }),
      );
      compiled.byKinds.set(key, scrubber);
      return settled(workspaceId, compiled, scrubber);
    },
  };
}
