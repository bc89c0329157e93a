import { setImmediate as turnOfLoop } from "node:timers/promises";
import type { Pool } from "pg";
import { readPersonalValues, type StoredPersonalValue } from "../store/sql/read-redaction.ts";
import { stored } from "../store/store-fault.ts";
import { valuePlace } from "./personal-values.ts";
import type { Sealer } from "./sealer.ts";
import { type RevisedSettings, readSettings } from "./settings.ts";
import { compileScrubber } from "./text/index.ts";
import { DETECTED_KINDS, type PersonalKind, type RegisteredValue, type Scrubber } from "./text/types.ts";

/** A workspace's scrubber with the settings it was compiled for. */
export interface WorkspaceScrubber {
  readonly scrubber: Scrubber;
  readonly settings: RevisedSettings;
}

/** The scrubbers of this process. */
export interface Scrubbers {
  /**
   * The scrubber of a workspace as its settings and values are now, on whichever process they were changed: the revision is
   * read every time, so that no lost message lets a registered value through. Compiled when it is first asked for and after a change.
   * Rejects with STORE_UNAVAILABLE and REDACTION_KEY_DIFFERS.
   */
  of(workspaceId: string): Promise<WorkspaceScrubber>;
}

/** What scrubbers are compiled from. */
export interface ScrubbersOptions {
  readonly pool: Pool;
  readonly sealer: Sealer;
}

/** Workspaces whose scrubbers are kept; the one asked for longest ago goes first. */
const KEPT = 256;
/** Values that are read, and decrypted without letting others run, at once: some 30 µs each. */
const VALUES_AT_ONCE = 250;

/** Decrypted values by their ids, which never change. */
type Values = ReadonlyMap<string, RegisteredValue>;

interface Compiled {
  readonly revision: number;
  readonly values: Promise<Values>;
  readonly scrubber: Promise<Scrubber>;
}

/** Reads the values of a workspace; decrypts those alone that are not known from before. */
async function readValues({ pool, sealer }: ScrubbersOptions, workspaceId: string, known: Values): Promise<Values> {
  const registered = new Map<string, RegisteredValue>();
  for (let after = ""; ; ) {
    const values = [workspaceId, after, VALUES_AT_ONCE];
    const { rows } = await stored(pool.query<StoredPersonalValue>({ ...readPersonalValues, values }));
    for (const { valueId, kind, sealedValue } of rows) {
      const open = (): string => sealer.open(workspaceId, valuePlace(valueId), sealedValue);
      registered.set(valueId, known.get(valueId) ?? { kind: kind as PersonalKind, value: open() });
    }
    after = rows.at(-1)?.valueId ?? "";
    if (rows.length < VALUES_AT_ONCE) return registered;
    await turnOfLoop();
  }
}

/** Creates the scrubbers. */
export function createScrubbers(options: ScrubbersOptions): Scrubbers {
  const kept = new Map<string, Compiled>();

  const compile = (workspaceId: string, settings: RevisedSettings, before: Compiled | undefined): Compiled => {
    const { revision, allow, disabledKinds } = settings;
    const kinds = DETECTED_KINDS.filter((kind) => !disabledKinds.includes(kind));
    const known: Promise<Values> = before?.values.catch(() => new Map()) ?? Promise.resolve(new Map());
    const values = known.then((each) => readValues(options, workspaceId, each));
    const scrubber = values.then((each) => compileScrubber({ registered: [...each.values()], allow, kinds }));
    return { revision, values, scrubber };
  };

  const compiledFor = (workspaceId: string, settings: RevisedSettings): Compiled => {
    const known = kept.get(workspaceId);
    const compiled = known?.revision === settings.revision ? known : compile(workspaceId, settings, known);
    // Deleted first, so that the one that was asked for longest ago is the first in the map.
    kept.delete(workspaceId);
    kept.set(workspaceId, compiled);
    const [oldest] = kept.keys();
    if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
    return compiled;
  };

  return {
    async of(workspaceId) {
      const settings = await readSettings(options, workspaceId);
      const compiled = compiledFor(workspaceId, settings);
      try {
        return { scrubber: await compiled.scrubber, settings };
      } catch (error) {
        if (kept.get(workspaceId) === compiled) kept.delete(workspaceId);
        throw error;
      }
    },
  };
}
