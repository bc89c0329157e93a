import { expect } from "chai";
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
