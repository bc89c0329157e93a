import { expect } from "chai";
import { optionsFrom } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { type BenchService, planFor } from "./service.ts";

describe("the plan of a load", () => {
  const service = { server: { pid: 1 } } as BenchService;
  const source = { kind: "insert", databaseUrl: "", rows: 1 } as const;

  for (const seconds of [5, 3, 1, 0.5, 1 / 3]) {
    it(`has whole milliseconds for ${seconds} seconds, as tools and timers take them.`, () => {
      const { warmUpMs, measureMs } = planFor(source, seconds, service, { pid: 2 } as BenchPostgres);
      expect([warmUpMs, measureMs].every(Number.isInteger)).to.equal(true);
    });
  }
});

describe("the options of the benchmark", () => {
  it("give growth alone nine rounds, unless others are asked for.", () => {
    const roundsOf = (...args: string[]): number => optionsFrom(args).rounds;
    expect([roundsOf(), roundsOf("--only", "growth"), roundsOf("--only", "growth", "--rounds", "1")]).to.deep.equal([
      3, 9, 1,
    ]);
  });

  it("shrink to whole numbers.", () => {
    const { growth, vault, dashboard } = optionsFrom(["--shrink", "3"]);
    const sizes = [growth, vault, dashboard].flatMap((part) => Object.values(part));
    expect(sizes.every(Number.isInteger)).to.equal(true);
    expect(growth).to.deep.equal({
      mandates: 334,
      agents: 33_334,
      entries: 666_667,
      streams: 167,
      actions: 333_334,
    });
  });
});
