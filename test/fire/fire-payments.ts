import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { assertIntact } from "../log/stored-log.ts";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { type PaymentsSize, playPayments, startPaymentFleet } from "./payments.ts";
import { readPaidRound } from "./payments-log.ts";

/** Processes that serve a round, by its seed. */
const PROCESSES = [1, 2, 4];
const processesOf = (seed: number): number => PROCESSES[seed % PROCESSES.length] as number;
const SIZE = { payments: 1_000, clients: 4, spreadMs: 2_500, clientKills: 4, serverKills: 2 };

function whole(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new RangeError(`--${name} must be a whole number above 0, not \`${text}\``);
}

/**
 * Pays in rounds: `npm run fire -- payments [--rounds 20] [--seed N]`; `--rounds 1` with the seed of a round repeats its choices. Resolves
 * with whether every round kept its promises.
 */
export async function firePayments(args: readonly string[]): Promise<boolean> {
  const options = { rounds: { type: "string", default: "20" }, seed: { type: "string" } } as const;
  const { values } = parseArgs({ args: [...args], options });
  const rounds = whole("rounds", values.rounds);
  const firstSeed = values.seed === undefined ? randomInt(1, 2 ** 31) : whole("seed", values.seed);
  const seeds = Array.from({ length: rounds }, (_, index) => firstSeed + index);
  await using cleanup = new AsyncDisposableStack();
  const most = Math.max(...seeds.map(processesOf));
  const fleet = await startPaymentFleet(await startOwnPostgres(cleanup), most, cleanup);
  let kept = 0;
  for (const seed of seeds) {
    const size: PaymentsSize = { ...SIZE, processes: processesOf(seed) };
    const { log, round } = await playPayments(fleet, seed, size);
    assertIntact(log);
    const { faults, figures } = readPaidRound(log, round);
    if (faults.length === 0) kept += 1;
    for (const fault of faults) console.log(`seed ${seed}: ${fault}`);
    const told = Object.entries(figures).map(([name, figure]) => `${name} ${figure}`);
    console.log(`seed ${seed}  ${size.processes} processes: ${told.join(", ")}`);
  }
  console.log(`${SIZE.payments} payments at once, clients and servers killed: ${kept} of ${rounds}`);
  return kept === rounds;
}
