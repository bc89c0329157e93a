import { parseArgs } from "node:util";

const PARTS = [
  "throughput",
  "scale",
  "window",
  "vault",
  "footprint",
  "turns",
  "workers",
  "dashboard",
  "budgets",
  "notifications",
] as const;
/** A part of the benchmark. The peer is measured only when asked for, since it is installed for the run. */
export type Part = (typeof PARTS)[number] | "peer";

/** How the benchmark runs. */
export interface BenchOptions {
  /** Seconds that each figure is measured for, after a warm-up of a third of it. Default 5. */
  readonly seconds: number;
  /** Alternating rounds of service and baseline, of which the median counts. Default 3, with the peer 9. */
  readonly rounds: number;
  /** Default all; `--quick` takes throughput alone, `--peer` the comparison with Cerbos alone. */
  readonly parts: readonly Part[];
  /** What the scale part grows to; `--shrink` divides all three, for trying the benchmark itself. */
  readonly scale: { readonly mandates: number; readonly agents: number; readonly entries: number };
  /** Part of the names of the loads of the turns part. Default: every load. */
  readonly loads: string;
  /** What the window of a day holds in the window part; `--shrink` divides it too. */
  readonly window: { readonly actions: number };
  /** Rows that the dashboard shows in the dashboard part; `--shrink` divides them too. */
  readonly dashboard: { readonly waiting: number; readonly decisions: number };
}

const USAGE = `usage: npm run bench -- [--seconds 5] [--rounds 3] [--quick | --peer | --only ${PARTS.join("|")}] [--loads text] [--shrink 1]`;

function partsFrom(only: string | undefined, quick: boolean, peer: boolean): readonly Part[] {
  if (peer) return ["peer"];
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
      rounds: { type: "string" },
      shrink: { type: "string", default: "1" },
      quick: { type: "boolean", default: false },
      peer: { type: "boolean", default: false },
      only: { type: "string" },
      loads: { type: "string", default: "" },
    },
  });
  const shrink = positive(values.shrink);
  return {
    seconds: positive(values.seconds),
    rounds: Math.ceil(positive(values.rounds ?? (values.peer ? "9" : "3"))),
    parts: partsFrom(values.only, values.quick, values.peer),
    loads: values.loads,
    scale: { mandates: 10_000 / shrink, agents: 100_000 / shrink, entries: 1_000_000 / shrink },
    window: { actions: 5_000_000 / shrink },
    dashboard: { waiting: Math.ceil(5_000 / shrink), decisions: Math.ceil(100_000 / shrink) },
  };
}
