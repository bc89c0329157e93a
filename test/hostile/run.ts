import { Draw } from "./draw.ts";
import { HostileFinding, Lab } from "./lab.ts";
import { NAME_CASES } from "./names.ts";
import { RETRY_CASES } from "./retries.ts";
import { STORED_CASES } from "./stored.ts";

/** A case: what it finds wrong, it throws. */
type HostileCase = (lab: Lab, draw: Draw, number: number) => Promise<void>;

const CASES: Readonly<Record<string, HostileCase>> = { ...NAME_CASES, ...RETRY_CASES, ...STORED_CASES };
/** Shares of the cases, in parts of their sum. */
const SHARES: Readonly<Record<keyof typeof NAME_CASES | keyof typeof RETRY_CASES | keyof typeof STORED_CASES, number>> =
  {
    ...{ "disguised action types": 18, "disguised tools": 12, "tools of servers": 10, "sources of arguments": 12 },
    ...{ "values of arguments and facts": 12, "ended authority": 8, noise: 5, "repeats after the end": 6 },
    ...{ "reused request ids": 5, "altered approvals": 5, "unusable approvals": 2, "approvals used twice": 1 },
    ...{ "stored schemas": 2, "stored patterns": 1, "stored mandates": 2 },
  };
const DEALT = Object.entries(SHARES).flatMap(([name, share]) => Array<string>(share).fill(name));

/** Cases that run at once. */
const AT_ONCE = 32;
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

/** Runs cases against the services of one workspace, in this process. The same seed and count make the same requests. */
export async function runHostile(seed: number, count: number): Promise<HostileRun> {
  const lab = await Lab.open(seed);
  const counts: Record<string, number> = Object.fromEntries(Object.keys(CASES).map((name) => [name, 0]));
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
          const name = draw.pick(DEALT);
          counts[name] = (counts[name] ?? 0) + 1;
          await CASES[name]?.(lab, draw, number).catch((error) => note(number, name, error));
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      await lab.assertPlain().catch((error) => note(from, "plain requests", error));
    }
  } finally {
    process.off("uncaughtException", uncaught);
    process.off("unhandledRejection", uncaught);
    await lab.close();
  }
  return { counts, findings };
}
