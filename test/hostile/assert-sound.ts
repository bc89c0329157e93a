import { expect } from "chai";
import type { HostileRun } from "./run.ts";

/** MiB that the memory after a run may exceed that after its first tenth. */
const MAX_GROWTH_MIB = 50;

/** Fails unless everything was found right and every disguise came to what is right for it. */
export function assertSound(run: HostileRun, least: number, leastDraws: number): void {
  const { counts, tally, findings } = run;
  console.log(`${tally}`.replace(/^/gm, "      "));
  expect(findings, findings.join("\n")).to.deep.equal([]);
  for (const [name, { cases, controls }] of Object.entries(counts)) {
    expect(cases, `cases of ${name}`).to.be.at.least(least);
    expect(controls, `plain forms of ${name}`).to.be.above(0);
  }
  expect(tally.shortcomings(leastDraws)).to.deep.equal([]);
}

/**
 * Prints the memory of the process after the first tenth of a run and after its end. Returns true if it stayed within its bound,
 * which holds for a process that serves nothing else.
 */
export function printGrowth({ memory }: Pick<HostileRun, "memory">): boolean {
  if (memory === undefined) return true;
  const [first, last] = [Math.round(memory.first), Math.round(memory.last)];
  const isSteady = last <= first + MAX_GROWTH_MIB;
  const bound = `<= ${first + MAX_GROWTH_MIB} MiB, ${isSteady ? "within it" : "above it"}`;
  console.log(`      memory after the first tenth: ${first} MiB; after all and a rest: ${last} MiB (${bound})`);
  return isSteady;
}
