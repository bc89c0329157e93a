import { expect } from "chai";
import fc from "fast-check";
import { generateTests } from "../../src/dryrun/generate-tests.ts";
import { runTests } from "../../src/dryrun/run-tests.ts";
import { mutated, type RandomMandate, randomMandate } from "./random-mandate.ts";

/** Random mandates from a seed, always the same. */
export function* mandatesFrom(
  seed: number,
): Generator<{ readonly mandate: RandomMandate; readonly from: fc.GeneratorValue }> {
  for (let index = 0; ; index++) {
    const [from] = fc.sample(fc.gen(), { numRuns: 1, seed: seed + index });
    if (from !== undefined) yield { mandate: randomMandate(from), from };
  }
}

/** Checks that every generated test of random mandates passes under the compiled rules. Returns how many there are. */
export async function passEverywhere(mandates: number, seed: number): Promise<number> {
  let count = 0;
  let left = mandates;
  for (const { mandate } of mandatesFrom(seed)) {
    if (left-- === 0) break;
    const { source, compiled, tools, rules } = mandate;
    const { tests } = await generateTests(source, tools, new Set());
    const { runs } = await runTests(tests, compiled, tools);
    for (const { passed, test, actual, reasons } of runs) {
      if (!passed) expect.fail(JSON.stringify({ rules, test, actual, reasons }, undefined, 1));
    }
    count += runs.length;
  }
  return count;
}

/** Share of changed mandates that at least one generated test of the unchanged one fails on. */
export async function shareFound(mutations: number, seed: number) {
  const byKind = new Map<string, { found: number; all: number }>();
  const missed: unknown[] = [];
  let all = 0;
  for (const { mandate, from } of mandatesFrom(seed)) {
    if (all >= mutations) break;
    const { tests } = await generateTests(mandate.source, mandate.tools, new Set());
    for (let each = 0; each < 5 && all < mutations; each++) {
      const change = mutated(from, mandate);
      if (change === undefined) continue;
      const { runs } = await runTests(tests, change.compiled, mandate.tools);
      const isFound = runs.some(({ passed }) => !passed);
      const counts = byKind.get(change.kind) ?? { found: 0, all: 0 };
      byKind.set(change.kind, { found: counts.found + Number(isFound), all: counts.all + 1 });
      if (!isFound)
        missed.push({
          kind: change.kind,
          before: mandate.rules[change.rule],
          after: change.rules[change.rule],
          others: mandate.rules.length - 1,
        });
      all++;
    }
  }
  return { share: 1 - missed.length / all, byKind: Object.fromEntries(byKind), missed };
}
