import { parseArgs } from "node:util";

const PARTS = [
  "throughput",
  "growth",
  "vault",
  "footprint",
  "turns",
  "workers",
  "dashboard",
  "budgets",
  "provenance",
  "notifications",
] as const;
/** A part of the benchmark. The peer is measured only when asked for, since it is installed for the run. */
export type Part = (typeof PARTS)[number] | "peer";

/** Sizes that a workspace grows to, each by itself. */
export interface Growth {
  readonly mandates: number;
  readonly agents: number;
  readonly entries: number;
  readonly streams: number;
  /** Actions in the window of a limit. */
  readonly actions: number;
}

/** How the benchmark runs. */
export interface BenchOptions {
  /** Seconds that each figure is measured for, after a warm-up of a third of it. Default 5. */
  readonly seconds: number;
  /** Alternating rounds of service and baseline, of which the median counts. Default 3, for the peer or growth alone 9. */
  readonly rounds: number;
  /** Default all; `--quick` takes throughput alone, `--peer` the comparison with Cerbos alone. */
  readonly parts: readonly Part[];
  /** What the growth part grows to; `--shrink` divides it, for trying the benchmark itself. */
  readonly growth: Growth;
  /** Entries of the large log of the vault part; `--shrink` divides them too. */
  readonly vault: { readonly entries: number };
  /** Part of the names of the loads of the turns part. Default: every load. */
  readonly loads: string;
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
  const shrunk = (size: number): number => Math.ceil(size / shrink);
  return {
    seconds: positive(values.seconds),
    rounds: Math.ceil(positive(values.rounds ?? (values.peer || values.only === "growth" ? "9" : "3"))),
    parts: partsFrom(values.only, values.quick, values.peer),
    loads: values.loads,
    growth: {
      mandates: shrunk(1_000),
      agents: shrunk(100_000),
      entries: shrunk(2_000_000),
      streams: shrunk(500),
      actions: shrunk(1_000_000),
    },
    vault: { entries: shrunk(1_000_000) },
    dashboard: { waiting: shrunk(5_000), decisions: shrunk(100_000) },
  };
}
