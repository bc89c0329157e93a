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
  assertSteady(run);
}

/** Fails if the memory of the process grew during a run. */
export function assertSteady({ memory }: Pick<HostileRun, "memory">): void {
  if (memory === undefined) return;
  const [first, last] = [Math.round(memory.first), Math.round(memory.last)];
  console.log(`      memory after the first tenth: ${first} MiB; after all and a rest: ${last} MiB`);
  expect(last, "MiB after all cases and a rest").to.be.at.most(first + MAX_GROWTH_MIB);
}
