/*
 * One log under many writers: `node test/vault/many-appenders.ts --processes 16 --seconds 20`. Processes append decisions
 * and changes to one workspace, while an observer takes checkpoints and verifies proofs between them. Ends with 1 for any
 * fault: a fork, a gap, an entry lost or doubled, a proof or a root that does not hold.
 */
import { parseArgs } from "node:util";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { runAppendingRound } from "./appending-round.ts";

const { values } = parseArgs({
  options: { processes: { type: "string", default: "16" }, seconds: { type: "string", default: "20" } },
});

function positive(name: keyof typeof values): number {
  const value = Number(values[name]);
  if (Number.isInteger(value) && value > 0) return value;
  throw new RangeError(`--${name} must be a whole number above 0, not \`${values[name]}\``);
}

const options = { processes: positive("processes"), seconds: positive("seconds") };
const cleanup = new AsyncDisposableStack();
try {
  const report = await runAppendingRound(await startOwnPostgres(cleanup), options);
  for (const fault of report.faults) console.log(fault);
  console.log(`processes     ${options.processes}, for ${options.seconds} s`);
  console.log(`decisions     ${report.decisions}, ${Math.round(report.decisions / options.seconds)} a second`);
  console.log(`entries       ${report.entries}, changes included`);
  console.log(`checkpoints   ${report.checkpoints} while they appended`);
  console.log(`proofs        ${report.proofs}, every one to hold`);
  console.log(`faults        ${report.faults.length}`);
  if (report.faults.length > 0) process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
