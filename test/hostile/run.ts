import { Draw } from "./draw.ts";
import { ENCODING_CASES } from "./encodings.ts";
import { HostileFinding, Lab } from "./lab.ts";
import { NAME_CASES } from "./names.ts";
import { RETRY_CASES } from "./retries.ts";
import { STORED_CASES } from "./stored.ts";
import { STREAM_CASES } from "./streams.ts";
import { WireLab } from "./wire-lab.ts";

/** What cases are run against. */
interface Surroundings {
  /** Checks that plain requests still get their decisions. */
  assertPlain(): Promise<void>;
  close(): Promise<void>;
}

/** A kind of cases with its share, in parts of the sum of all. What a case finds wrong, it throws. */
type Kinds<L> = Readonly<
  Record<string, { readonly share: number; readonly run: (lab: L, draw: Draw, number: number) => Promise<void> }>
>;

const withShares = <R, K extends string>(cases: Readonly<Record<K, R>>, shares: Readonly<Record<K, number>>) =>
  Object.fromEntries(Object.entries<R>(cases).map(([name, run]) => [name, { run, share: shares[name as K] }] as const));

const KINDS: Kinds<Lab> = {
  ...withShares(NAME_CASES, {
    ...{ "disguised action types": 18, "disguised tools": 12, "tools of servers": 10, "sources of arguments": 12 },
    ...{ "values of arguments and facts": 12, "ended authority": 8, noise: 5 },
  }),
  ...withShares(RETRY_CASES, {
    ...{ "repeats after the end": 6, "reused request ids": 5, "altered approvals": 5, "unusable approvals": 2 },
    ...{ "approvals used twice": 1 },
  }),
  ...withShares(STORED_CASES, { "stored schemas": 5, "stored patterns": 1, "stored mandates": 2 }),
};
const WIRE_KINDS: Kinds<WireLab> = {
  ...withShares(ENCODING_CASES, {
    ...{ "json texts": 8, "character encodings": 4, "http requests": 8, "connect requests": 4 },
  }),
  ...withShares(STREAM_CASES, { "streams whose key ends": 2 }),
};

/** Cases after which the plain requests are checked. */
const BATCH = 500;
/** Findings after which a run ends. */
const MAX_FINDINGS = 20;

/** How a run went. */
export interface HostileRun {
  /** Cases by what was hostile about them. */
  readonly counts: Readonly<Record<string, number>>;
  /** Every wrong answer, crash or fault, with the seed and the number of its case. */
  readonly findings: readonly string[];
}

async function run<L extends Surroundings>(
  lab: L,
  kinds: Kinds<L>,
  { seed, count, atOnce }: { readonly seed: number; readonly count: number; readonly atOnce: number },
): Promise<HostileRun> {
  const dealt = Object.entries(kinds).flatMap(([name, { share }]) => Array<string>(share).fill(name));
  const counts: Record<string, number> = Object.fromEntries(dealt.map((name) => [name, 0]));
  const findings: string[] = [];
  const note = (number: number, name: string, error: unknown): void => {
    const what = error instanceof HostileFinding ? error.message : String(error instanceof Error ? error.stack : error);
    findings.push(`seed ${seed}, case ${number} (${name}): ${what}`);
  };
  const uncaught = (error: unknown): void => note(-1, "uncaught", error);
  process.on("uncaughtException", uncaught);
  process.on("unhandledRejection", uncaught);
  try {
    for (let from = 0; from < count && findings.length < MAX_FINDINGS; from += BATCH) {
      const numbers = Array.from({ length: Math.min(BATCH, count - from) }, (_, each) => from + each).values();
      const work = async (): Promise<void> => {
        for (const number of numbers) {
          const draw = new Draw(seed, number);
          const name = draw.pick(dealt);
          counts[name] = (counts[name] ?? 0) + 1;
          await kinds[name]?.run(lab, draw, number).catch((error) => note(number, name, error));
        }
      };
      await Promise.all(Array.from({ length: atOnce }, work));
      await lab.assertPlain().catch((error) => note(from, "plain requests", error));
    }
  } finally {
    process.off("uncaughtException", uncaught);
    process.off("unhandledRejection", uncaught);
    await lab.close();
  }
  return { counts, findings };
}

/** Runs cases against the services of one workspace, in this process. The same seed and count make the same requests. */
export async function runHostile(seed: number, count: number): Promise<HostileRun> {
  return run(await Lab.open(seed), KINDS, { seed, count, atOnce: 32 });
}

/** Runs cases against the program as a process of its own: bytes over HTTP, and streams. */
export async function runHostileWire(seed: number, count: number): Promise<HostileRun> {
  return run(await WireLab.open(), WIRE_KINDS, { seed, count, atOnce: 8 });
}
