import { parseArgs } from "node:util";

const PARTS = ["throughput", "scale", "window", "vault", "footprint", "turns", "workers"] as const;
/** A part of the benchmark. */
export type Part = (typeof PARTS)[number];

/** How the benchmark runs. */
export interface BenchOptions {
  /** Seconds that each figure is measured for, after a warm-up of a third of it. Default 5. */
  readonly seconds: number;
  /** Alternating rounds of service and baseline, of which the median counts. Default 3. */
  readonly rounds: number;
  /** Default all; `--quick` takes throughput alone. */
  readonly parts: readonly Part[];
  /** What the scale part grows to; `--shrink` divides all three, for trying the benchmark itself. */
  readonly scale: { readonly mandates: number; readonly agents: number; readonly entries: number };
  /** Part of the names of the loads of the turns part. Default: every load. */
  readonly loads: string;
  /** What the window of a day holds in the window part; `--shrink` divides it too. */
  readonly window: { readonly actions: number };
}

const USAGE = `usage: npm run bench -- [--seconds 5] [--rounds 3] [--quick | --only ${PARTS.join("|")}] [--loads text] [--shrink 1]`;

function partsFrom(only: string | undefined, quick: boolean): readonly Part[] {
  if (only === undefined) return quick ? ["throughput"] : PARTS;
  const part = PARTS.find((name) => name === only);
  if (part === undefined) throw new Error(USAGE);
  return [part];
}

function positive(text: string): number {
  const value = Number(text);
  if (value > 0) return value;
  throw new Error(USAGE);
}

/** Reads the command line. Throws an `Error` that says how it is to be written. */
export function optionsFrom(args: string[]): BenchOptions {
  const { values } = parseArgs({
    args,
    options: {
      seconds: { type: "string", default: "5" },
      rounds: { type: "string", default: "3" },
      shrink: { type: "string", default: "1" },
      quick: { type: "boolean", default: false },
      only: { type: "string" },
      loads: { type: "string", default: "" },
    },
  });
  const shrink = positive(values.shrink);
  return {
    seconds: positive(values.seconds),
    rounds: Math.ceil(positive(values.rounds)),
    parts: partsFrom(values.only, values.quick),
    loads: values.loads,
    scale: { mandates: 10_000 / shrink, agents: 100_000 / shrink, entries: 1_000_000 / shrink },
    window: { actions: 5_000_000 / shrink },
  };
}
