import { startOwnPostgres } from "../support/own-postgres.ts";
import { runKills } from "./killed-processes.ts";
import { runManyWorkspaces } from "./many-workspaces.ts";

/** The process unloads a workspace that nobody used for ten minutes. */
const SIZE = { workspaces: 10_000, decisions: 20, coldStarts: 1_000, idleMs: 660_000 };
const KILLS = { processes: 4, workspaces: 20, callers: 64, seconds: 300, everyMs: 5_000 };

/** Fills 10,000 workspaces of one process. Prints what they take; promises nothing but that it works. */
export async function fireWorkspaces(): Promise<boolean> {
  await using cleanup = new AsyncDisposableStack();
  const report = await runManyWorkspaces(await startOwnPostgres(cleanup), SIZE);
  console.log(`${SIZE.workspaces} workspaces with ${SIZE.decisions} decisions each on one process`);
  console.log(`loaded        ${report.loadedKib.toFixed(1)} KiB each; ${Math.round(report.residentMib)} MiB resident`);
  console.log(`unloaded      ${report.idleKib.toFixed(1)} KiB each`);
  console.log(`cold start    p50 ${report.coldP50.toFixed(1)} ms, p99 ${report.coldP99.toFixed(1)} ms`);
  return true;
}

/** Kills four processes at random for five minutes. Resolves with whether nothing was lost and every log verifies. */
export async function fireKills(): Promise<boolean> {
  await using cleanup = new AsyncDisposableStack();
  const { kills, acknowledged, verified, faults } = await runKills(await startOwnPostgres(cleanup), KILLS);
  for (const fault of faults) console.log(fault);
  console.log(`${KILLS.processes} processes, ${kills} kills: ${acknowledged} acknowledged`);
  console.log(`logs that verify: ${verified} of ${KILLS.workspaces}`);
  return faults.length === 0;
}
