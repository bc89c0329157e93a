import { expect } from "chai";
import { oncePerOutage } from "../../src/mirror/redis-health.ts";

describe("an outage of Redis", () => {
  it("is one line for all uses when it begins, and one with its length when all are back", () => {
    const lines: (readonly [message: string, details: object])[] = [];
    const write = (details: object, message: string): void => void lines.push([message, details]);
    let now = 0;
    const log = oncePerOutage({ info: write, warn: write }, () => now);
    for (const use of ["mirror", "wake-ups"]) log.info({ use }, "redis answers");
    for (const use of ["mirror", "wake-ups"]) log.warn({ use, reason: "ECONNREFUSED" }, "redis does not answer");
    now = 1_500;
    log.info({ use: "wake-ups" }, "redis answers");
    expect(lines).to.have.length(2);
    log.info({ use: "mirror" }, "redis answers");
    expect(lines).to.deep.equal([
      ["redis answers", {}],
      ["redis does not answer", { reason: "ECONNREFUSED" }],
      ["redis answers again", { away_ms: 1_500 }],
    ]);
  });
});
