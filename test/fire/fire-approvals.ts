import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { assertIntact } from "../log/stored-log.ts";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { playApprovals } from "./approvals.ts";
import { readApprovals, verifierFault } from "./approvals-log.ts";
import { startPaymentFleet } from "./payments.ts";

const SIZE = { processes: 4, callers: 24, steps: 60, kills: 3 };

function whole(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new RangeError(`--${name} must be a whole number above 0, not \`${text}\``);
}

/**
 * Approves in rounds: `npm run fire -- approvals [--rounds 20] [--seed N]`; `--rounds 1` with the seed of a round repeats its choices.
 * Resolves with whether every round kept its promises.
 */
export async function fireApprovals(args: readonly string[]): Promise<boolean> {
  const options = { rounds: { type: "string", default: "20" }, seed: { type: "string" } } as const;
  const { values } = parseArgs({ args: [...args], options });
  const rounds = whole("rounds", values.rounds);
  const firstSeed = values.seed === undefined ? randomInt(1, 2 ** 31) : whole("seed", values.seed);
  await using cleanup = new AsyncDisposableStack();
  const fleet = await startPaymentFleet(await startOwnPostgres(cleanup), SIZE.processes, cleanup);
  let kept = 0;
  for (let seed = firstSeed; seed < firstSeed + rounds; seed++) {
    const log = await playApprovals(fleet, seed, SIZE);
    assertIntact(log);
    const { faults: read, figures } = readApprovals(log);
    const faults = [...read, ...[verifierFault(log)].filter((fault) => fault !== undefined)];
    if (faults.length === 0) kept += 1;
    for (const fault of faults) console.log(`seed ${seed}: ${fault}`);
    const told = Object.entries(figures).map(([name, figure]) => `${name} ${figure}`);
    console.log(`seed ${seed}: ${told.join(", ")}`);
  }
  console.log(`askers, approvers, editors and groups at once, servers killed: ${kept} of ${rounds}`);
  return kept === rounds;
}
