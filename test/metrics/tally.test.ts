import { expect } from "chai";
import { Counter, Histogram, Registry } from "prom-client";
import { BoundedLabel } from "../../src/metrics/bounded-label.ts";
import { TallyCounter, TallyHistogram } from "../../src/metrics/tally.ts";

describe("a tally", () => {
  it("of counts prints as prom-client's counter does.", async () => {
    const [own, theirs] = [new Registry(), new Registry()];
    const options = { name: "a_total", help: "All of them.", labelNames: ["kind", "way"] as const };
    const tally = new TallyCounter({ ...options, registry: own });
    const counter = new Counter({ ...options, registers: [theirs] });
    for (const [kind, count] of Object.entries({ small: 3, '"large"\n': 4 })) {
      tally.series({ kind, way: "in" }).value += count;
      counter.inc({ kind, way: "in" }, count);
    }
    expect(await own.metrics()).to.equal(await theirs.metrics());
  });

  it("of values prints as prom-client's histogram does.", async () => {
    const [own, theirs] = [new Registry(), new Registry()];
    const options = { name: "a_seconds", help: "All of them.", labelNames: ["way"] as const, buckets: [0.25, 1, 4] };
    const tally = new TallyHistogram({ ...options, registry: own });
    const histogram = new Histogram({ ...options, registers: [theirs] });
    for (const way of ["in", "out"]) {
      const series = tally.series({ way });
      for (const value of [0, 0.25, 0.5, 1, 2, 4, 8]) {
        series.observe(value);
        histogram.observe({ way }, value);
      }
    }
    expect(await own.metrics()).to.equal(await theirs.metrics());
  });
});

describe("a bounded label", () => {
  it("gives the first values as they are, and one word for all others.", () => {
    const label = new BoundedLabel(2);
    expect(["a", "b", "c", "a", "d", "b"].map((value) => label.of(value))).to.deep.equal([
      "a",
      "b",
      "other",
      "a",
      "other",
      "b",
    ]);
  });
});
