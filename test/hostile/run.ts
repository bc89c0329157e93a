import { setTimeout as delay } from "node:timers/promises";
import { memoryMib } from "../bench/cpu.ts";
import { Draw, type DrawOptions } from "./draw.ts";
import { ENCODING_CASES } from "./encodings.ts";
import { GatewayLab } from "./gateway-lab.ts";
import { GRPC_CASES } from "./grpc.ts";
import { HOOK_CASES } from "./hook-cases.ts";
import { HostileFinding, Lab } from "./lab.ts";
import { MCP_CASES } from "./mcp-cases.ts";
import { NAME_CASES } from "./names.ts";
import { RETRY_CASES } from "./retries.ts";
import { Tally } from "./rights.ts";
import { fewerChoices } from "./shrink.ts";
import { STORED_CASES } from "./stored.ts";
import { STREAM_CASES } from "./streams.ts";
import { WireLab } from "./wire-lab.ts";

/** What cases are run against. */
interface Surroundings {
  /** Checks that plain requests still get their decisions. */
  assertPlain(): Promise<void>;
  close(): Promise<void>;
  /** Process that serves the cases. */
  readonly pid: number;
}

/** Cases of one kind. What they find wrong, they throw. */
interface Family<L> {
  readonly run: (lab: L, draw: Draw, number: number) => Promise<void>;
  /** Sends plain forms: the one that must be refused is, and the one that must be allowed is. */
  readonly control: (lab: L, draw: Draw, number: number) => Promise<void>;
}

/** Families with their shares, in parts of the sum of all. */
type Families<L> = Readonly<Record<string, Family<L> & { readonly share: number }>>;

const withShares = <L, K extends string>(
  families: Readonly<Record<K, Family<L>>>,
  shares: Readonly<Record<K, number>>,
): Families<L> =>
  Object.fromEntries(
    Object.entries<Family<L>>(families).map(([name, family]) => [name, { ...family, share: shares[name as K] }]),
  );

const FAMILIES: Families<Lab> = {
  ...withShares(NAME_CASES, {
    "disguised action types": 9,
    "disguised tools": 11,
    "tools of servers": 9,
    "sources of arguments": 12,
    "values of arguments and facts": 12,
    "ended authority": 9,
    noise: 3,
  }),
  ...withShares(RETRY_CASES, {
    "repeats after the end": 4,
    "reused request ids": 4,
    "altered approvals": 5,
    "unusable approvals": 2,
    "approvals of others": 2,
    "approvals used twice": 1,
  }),
  ...withShares(STORED_CASES, { "stored schemas": 20, "stored patterns": 15, "stored mandates": 12 }),
};
const WIRE_FAMILIES: Families<WireLab> = {
  ...withShares(ENCODING_CASES, {
    "json texts": 12,
    "character encodings": 5,
    "http requests": 15,
    "connect requests": 6,
  }),
  ...withShares(GRPC_CASES, { "grpc requests": 10 }),
  ...withShares(STREAM_CASES, { "intercepts whose key ends": 5, "watches whose key ends": 4, cursors: 3 }),
};
const GATEWAY_FAMILIES: Families<GatewayLab> = {
  ...withShares(MCP_CASES, {
    "mcp tools": 5,
    "mcp arguments": 8,
    "mcp places": 8,
    "mcp prompts": 4,
    "mcp texts": 12,
    "mcp headers": 8,
    "mcp requests": 6,
    "mcp things of others": 6,
    "mcp approvals": 3,
    "mcp crowds": 3,
  }),
  ...withShares(HOOK_CASES, { "hook tools": 5, "hook events": 8, "hook requests": 6 }),
};

/** Cases after which the plain requests are checked. */
const BATCH = 500;
/** Findings after which a run ends. */
const MAX_FINDINGS = 20;
/** Of these, those that are made smaller. */
const MAX_SHRUNK = 3;
/** Once in so many cases, one family after the other sends its plain forms. */
const CONTROL_EVERY = 25;

/** MiB of memory of the process that serves the cases. */
export interface HostileMemory {
  /** After the first tenth of the cases. */
  readonly first: number;
  /** After all of them and a rest. */
  readonly last: number;
}

/** How a run went. */
export interface HostileRun {
  /** Cases of each family, and of them those that sent plain forms. */
  readonly counts: Readonly<Record<string, { readonly cases: number; readonly controls: number }>>;
  readonly tally: Tally;
  /** Every wrong answer, crash or fault, with the seed and the number of its case. */
  readonly findings: readonly string[];
  /** Measured if the run has a rest at its end. */
  readonly memory: HostileMemory | undefined;
}

/** A lab and the families that are run in it. */
interface Stage<L> {
  readonly name: StageName;
  readonly lab: L;
  readonly families: Families<L>;
}

async function runCase<L>(
  { lab, families }: Stage<L>,
  draw: Draw,
  number: number,
): Promise<{ readonly family: string; readonly isControl: boolean; readonly error?: unknown }> {
  const names = Object.keys(families);
  const dealt = names.flatMap((name) => Array<string>(families[name]?.share ?? 0).fill(name));
  const isControl = number % CONTROL_EVERY === 0;
  const family = isControl ? (names[(number / CONTROL_EVERY) % names.length] as string) : draw.pick(dealt);
  const { run, control } = families[family] as Family<L>;
  try {
    await (isControl ? control : run)(lab, draw, number);
    return { family, isControl };
  } catch (error) {
    return { family, isControl, error };
  }
}

const messageOf = (error: unknown): string =>
  error instanceof HostileFinding ? error.message : String(error instanceof Error ? error.stack : error);

interface Failure {
  readonly number: number;
  readonly family: string;
  readonly error: unknown;
  readonly choices: readonly number[];
}

/** Tells of a failure, and of the smallest case like it that fails too. */
async function told<L>(stage: Stage<L>, seed: number, failure: Failure, isShrunk: boolean): Promise<string> {
  const { number, family, error, choices } = failure;
  const lines = [`seed ${seed}, case ${number} (${family}): ${messageOf(error)}`];
  if (!isShrunk) return lines.join("\n");
  let attempt = 0;
  let last: unknown;
  const smallest = await fewerChoices(choices, async (tried) => {
    const again = await runCase(stage, new Draw(seed, number, { choices: tried, attempt: ++attempt }), number);
    if (!(again.error instanceof HostileFinding)) return false;
    last = again.error;
    return true;
  });
  if (smallest === undefined) lines.push("  alone it does not fail: what it needs is left by cases before it");
  else {
    const repeat = `node test/hostile/repeat.ts ${stage.name} ${seed} ${number} ${smallest.join(",")}`;
    lines.push(`  smallest: ${messageOf(last)}`, `  repeat it with: ${repeat}`);
  }
  return lines.join("\n");
}

async function run<L extends Surroundings>(
  stage: Stage<L>,
  seed: number,
  count: number,
  atOnce: number,
  restMs: number | undefined,
): Promise<HostileRun> {
  const { lab, families } = stage;
  let firstMib: number | undefined;
  let memory: HostileMemory | undefined;
  const counts = Object.fromEntries(Object.keys(families).map((name) => [name, { cases: 0, controls: 0 }]));
  const tally = new Tally();
  const failures: Failure[] = [];
  const findings: string[] = [];
  const note = (number: number, family: string, error: unknown, choices: readonly number[] = []): void => {
    failures.push({ number, family, error, choices });
  };
  const uncaught = (error: unknown): void => note(-1, "uncaught", error);
  process.on("uncaughtException", uncaught);
  process.on("unhandledRejection", uncaught);
  try {
    for (let from = 0; from < count && failures.length < MAX_FINDINGS; from += BATCH) {
      const numbers = Array.from({ length: Math.min(BATCH, count - from) }, (_, each) => from + each).values();
      const work = async (): Promise<void> => {
        for (const number of numbers) {
          if (failures.length >= MAX_FINDINGS) return;
          const draw = new Draw(seed, number, { tally });
          const { family, isControl, error } = await runCase(stage, draw, number);
          const counted = counts[family] as { cases: number; controls: number };
          counted[isControl ? "controls" : "cases"]++;
          if (error !== undefined) note(number, family, error, draw.choices);
        }
      };
      await Promise.all(Array.from({ length: atOnce }, work));
      await lab.assertPlain().catch((error) => note(from, "plain requests", error));
      if (from + BATCH >= count / 10) firstMib ??= memoryMib(lab.pid);
    }
    if (restMs !== undefined && firstMib !== undefined) {
      await delay(restMs);
      memory = { first: firstMib, last: memoryMib(lab.pid) };
    }
    for (const [at, failure] of failures.entries())
      findings.push(await told(stage, seed, failure, at < MAX_SHRUNK && failure.choices.length > 0));
  } finally {
    process.off("uncaughtException", uncaught);
    process.off("unhandledRejection", uncaught);
    await lab.close();
  }
  return { counts, tally, findings, memory };
}

const STAGES = {
  /** The services of one workspace, in this process. */
  services: async (seed: number): Promise<Stage<Lab>> => ({
    name: "services",
    lab: await Lab.open(seed),
    families: FAMILIES,
  }),
  /** The program as a process of its own: bytes over HTTP, gRPC, and streams. */
  wire: async (): Promise<Stage<WireLab>> => ({ name: "wire", lab: await WireLab.open(), families: WIRE_FAMILIES }),
  /** The same in front of MCP servers, and the hooks of coding agents. */
  gateway: async (): Promise<Stage<GatewayLab>> => ({
    name: "gateway",
    lab: await GatewayLab.open(),
    families: GATEWAY_FAMILIES,
  }),
};
export type StageName = keyof typeof STAGES;

/** Runs cases against the services of one workspace, in this process. The same seed and count make the same requests. */
export async function runHostile(seed: number, count: number): Promise<HostileRun> {
  return run(await STAGES.services(seed), seed, count, 32, undefined);
}

/**
 * Runs cases against the program as a process of its own: bytes over HTTP, gRPC, and streams. `restMs`: milliseconds of rest at the
 * end, after which the memory is measured.
 */
export async function runHostileWire(seed: number, count: number, restMs?: number): Promise<HostileRun> {
  return run(await STAGES.wire(), seed, count, 8, restMs);
}

/** Runs cases against the gateway and the hooks of the program. */
export async function runHostileGateway(seed: number, count: number, restMs?: number): Promise<HostileRun> {
  return run(await STAGES.gateway(), seed, count, 8, restMs);
}

/** Runs one case by its choices alone; gives what it finds wrong, undefined for nothing. */
export async function repeatHostile(
  name: StageName,
  seed: number,
  number: number,
  options: DrawOptions,
): Promise<string | undefined> {
  const repeat = async <L extends Surroundings>(stage: Stage<L>): Promise<string | undefined> => {
    const { error } = await runCase(stage, new Draw(seed, number, options), number);
    await stage.lab.close();
    return error === undefined ? undefined : messageOf(error);
  };
  if (name === "gateway") return repeat(await STAGES.gateway());
  return name === "wire" ? repeat(await STAGES.wire()) : repeat(await STAGES.services(seed));
}
