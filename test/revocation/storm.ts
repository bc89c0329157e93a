/*
 * No allow after a revoke, many times over: `node test/revocation/storm.ts --rounds 50`. Three processes on one database,
 * the wall clocks of two of them five minutes wrong, and 64 callers through all of them. Ends with 1 for any fault.
 */
import { parseArgs } from "node:util";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { SKEWS_MS, startFleet } from "./fleet.ts";
import { type RoundReport, runStormRound } from "./storm-round.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "50" } } });
const rounds = Number(values.rounds);
if (!Number.isInteger(rounds) || rounds < 1)
  throw new RangeError(`--rounds must be a whole number above 0, not \`${values.rounds}\``);

function quantile(sorted: readonly number[], part: number): string {
  return `${(sorted[Math.ceil(sorted.length * part) - 1] ?? Number.NaN).toFixed(1)} ms`;
}

function print(reports: readonly RoundReport[]): void {
  const sum = (numberOf: (report: RoundReport) => number) => reports.reduce((total, each) => total + numberOf(each), 0);
  const times = reports.map(({ revokeMs }) => revokeMs).sort((a, b) => a - b);
  console.log(`rounds             ${reports.length}`);
  console.log(`decisions before   ${sum(({ before }) => before)}, every one to be allowed`);
  console.log(`decisions after    ${sum(({ after }) => after)}, every one to be blocked by \`revoked\``);
  console.log(`faults             ${sum(({ faults }) => faults.length)}`);
  console.log(`RevokeAgent        p50 ${quantile(times, 0.5)}, p99 ${quantile(times, 0.99)} under this load`);
}

const cleanup = new AsyncDisposableStack();
try {
  const databaseUrl = await startOwnPostgres(cleanup);
  const fleet = await startFleet(databaseUrl, SKEWS_MS, cleanup);
  const reports: RoundReport[] = [];
  for (let round = 0; round < rounds; round++) {
    const report = await runStormRound(fleet, databaseUrl, round);
    for (const fault of report.faults) console.log(`round ${round}: ${fault}`);
    reports.push(report);
  }
  print(reports);
  if (reports.some(({ faults }) => faults.length > 0)) process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
