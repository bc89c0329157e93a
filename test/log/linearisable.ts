/*
 * A recorded history and whether its log explains it: `node test/log/linearisable.ts --seconds 30 --seed 1`. Three
 * processes on one database with clocks five minutes apart and a Redis in trouble; see `linearisable-run.ts`. With
 * `--workers 2` each has two workers, which decide for each other. Ends with 1 for any fault, after telling the first of
 * each kind.
 */
import { parseArgs } from "node:util";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { checkHistory } from "./linearisable-checks.ts";
import { recordHistory } from "./linearisable-run.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "30" },
    seed: { type: "string", default: "1" },
    workers: { type: "string", default: "1" },
  },
});

function whole(name: keyof typeof values): number {
  const value = Number(values[name]);
  if (Number.isInteger(value) && value > 0) return value;
  throw new RangeError(`--${name} must be a whole number above 0, not \`${values[name]}\``);
}

const [seconds, seed, workers] = [whole("seconds"), whole("seed"), whole("workers")];
await using cleanup = new AsyncDisposableStack();
const databaseUrl = await startOwnPostgres(cleanup);
const { faults, figures } = checkHistory(await recordHistory({ databaseUrl, seed, seconds, workers }));
for (const [name, figure] of Object.entries({ seed, seconds, workers, ...figures, faults: faults.length })) {
  console.log(`${name.padEnd(26)}${figure}`);
}
for (const fault of faults) console.log(`seed ${seed}: ${fault}`);
if (faults.length > 0) process.exitCode = 1;
