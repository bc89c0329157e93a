import { expect } from "chai";
import type { HostileRun } from "./run.ts";

/** Fails unless everything was found right and every disguise came to what is right for it. */
export function assertSound({ counts, tally, findings }: HostileRun, least: number, leastDraws: number): void {
  console.log(`${tally}`.replace(/^/gm, "      "));
  expect(findings, findings.join("\n")).to.deep.equal([]);
  for (const [name, { cases, controls }] of Object.entries(counts)) {
    expect(cases, `cases of ${name}`).to.be.at.least(least);
    expect(controls, `plain forms of ${name}`).to.be.above(0);
  }
  expect(tally.shortcomings(leastDraws)).to.deep.equal([]);
}
