import { runStoreFault, STORE_FAULTS } from "./store-faults.ts";

const SIZE = { callers: 100, calmMs: 3_000, faultMs: 10_000 };

/** Runs each fault of the database and of the way to it. Resolves with whether every promise held. */
export async function fireFaults(): Promise<boolean> {
  let holds = true;
  for (const fault of STORE_FAULTS) {
    const report = await runStoreFault(fault, SIZE);
    if (report === undefined) {
      console.log(`${fault.name}: left out, this machine does not let the trial mount a file system`);
      continue;
    }
    const { acknowledged, refusals, recoveryMs, faults } = report;
    for (const broken of faults) console.log(`${fault.name}: ${broken}`);
    if (faults.length > 0) holds = false;
    const others = Object.entries(refusals).map(([reason, count]) => `${count} ${reason}`);
    console.log(
      `${fault.name}  ${acknowledged} acknowledged, none lost: ${faults.length === 0}; refused: ${others.join(", ") || "none"}; first decision ${(recoveryMs / 1_000).toFixed(1)} s after it ended`,
    );
  }
  return holds;
}
