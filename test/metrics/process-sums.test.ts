import { expect } from "chai";
import fc from "fast-check";
import { Gauge, Histogram, Registry } from "prom-client";
import { ProcessSums } from "../../src/metrics/process-sums.ts";
import { readReport } from "../../src/metrics/report.ts";
import { TallyCounter } from "../../src/metrics/tally.ts";
import { type Sample, samplesFrom, sumOf } from "../support/metrics.ts";

/** Metrics of one process. */
function createProcess() {
  const registry = new Registry();
  const registers = [registry];
  const calls = new TallyCounter({ name: "calls_total", help: "Calls.", labelNames: ["code"], registry });
  return {
    registry,
    calls: calls.series({ code: "OK" }),
    firings: new TallyCounter({
      name: "firings_total",
      help: "Firings.",
      labelNames: ["mandate"],
      bounded: { label: "mandate", max: 200 },
      registry,
    }),
    seconds: new Histogram({ name: "call_seconds", help: "Seconds.", buckets: [1, 10], registers }),
    open: new Gauge({ name: "open", help: "Open.", registers }),
    delay: new Gauge({ name: "delay", help: "Longest.", registers, aggregator: "max" }),
  };
}

type Process = ReturnType<typeof createProcess>;

/** Reads the processes at places that count from 0, as the primary does for a page. */
async function pageOf(sums: ProcessSums, processes: readonly Process[]): Promise<readonly Sample[]> {
  const reports = await Promise.all(processes.map(({ registry }) => readReport(registry)));
  for (const [place, { counts }] of reports.entries()) sums.take(place, counts);
  return samplesFrom(await sums.page(reports.map(({ gauges }) => gauges)));
}

describe("the sum of processes", () => {
  it("adds up counters, histograms and gauges; a gauge may say that it is the longest.", async () => {
    const [first, second] = [createProcess(), createProcess()];
    first.calls.value = 3;
    second.calls.value = 4;
    for (const seconds of [0.5, 5]) first.seconds.observe(seconds);
    second.seconds.observe(0.25);
    first.open.set(2);
    second.open.set(5);
    first.delay.set(7);
    second.delay.set(1);
    const samples = await pageOf(new ProcessSums(), [first, second]);
    expect(samples.filter(({ value }) => value > 0)).to.have.deep.members([
      { name: "calls_total", labels: { code: "OK" }, value: 7 },
      { name: "call_seconds_bucket", labels: { le: "1" }, value: 2 },
      { name: "call_seconds_bucket", labels: { le: "10" }, value: 3 },
      { name: "call_seconds_bucket", labels: { le: "+Inf" }, value: 3 },
      { name: "call_seconds_sum", labels: {}, value: 5.75 },
      { name: "call_seconds_count", labels: {}, value: 3 },
      { name: "open", labels: {}, value: 7 },
      { name: "delay", labels: {}, value: 7 },
    ]);
  });

  it("keeps the counts of processes that ended, and not their gauges.", async () => {
    const sums = new ProcessSums();
    for (let round = 1; round <= 5; round++) {
      const [short, long] = [createProcess(), createProcess()];
      short.calls.value = 10;
      short.seconds.observe(1);
      short.open.set(1);
      const before = await pageOf(sums, [short, long]);
      for (const place of [0, 1]) sums.end(place);
      const after = samplesFrom(await sums.page([]));
      expect(sumOf(before, "open")).to.equal(1);
      for (const samples of [before, after]) {
        expect(sumOf(samples, "calls_total")).to.equal(10 * round);
        expect(sumOf(samples, "call_seconds_count")).to.equal(round);
      }
      expect(after.filter(({ name }) => name === "open")).to.deep.equal([]);
    }
  });

  it("counts a process once while it ends.", async () => {
    const sums = new ProcessSums();
    const short = createProcess();
    short.calls.value = 10;
    await pageOf(sums, [short]);
    expect(sums.hasReported(0)).to.equal(true);
    const page = sums.page([]);
    sums.end(0);
    sums.end(0);
    expect(sums.hasReported(0)).to.equal(false);
    for (const text of [await page, await sums.page([])]) expect(sumOf(samplesFrom(text), "calls_total")).to.equal(10);
  });

  it("never shows a lower number of seconds, in whatever order processes end.", async () => {
    const event = fc.record({
      place: fc.integer({ min: 0, max: 2 }),
      // Sums of such numbers are rounded.
      seconds: fc.integer({ min: 1, max: 20_000_000 }).map((micros) => micros / 1_000_000),
      ends: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(event, { minLength: 10, maxLength: 30 }), async (events) => {
        const sums = new ProcessSums();
        const processes = [createProcess(), createProcess(), createProcess()];
        let shown = 0;
        const look = async () => {
          const seconds = sumOf(samplesFrom(await sums.page([])), "call_seconds_sum");
          expect(seconds).to.be.at.least(shown);
          shown = seconds;
        };
        for (const { place, seconds, ends } of events) {
          (processes[place] as Process).seconds.observe(seconds);
          await pageOf(sums, processes);
          await look();
          if (!ends) continue;
          sums.end(place);
          processes[place] = createProcess();
          await look();
        }
      }),
      { numRuns: 50 },
    );
  });

  it("names 200 mandates, however many the processes name together, and the same ones for good.", async () => {
    const sums = new ProcessSums();
    const firingsOf = (samples: readonly Sample[]) =>
      new Map(
        samples
          .filter(({ name }) => name === "firings_total")
          .map(({ labels, value }) => [labels.mandate as string, value]),
      );
    const processes = [0, 150, 300].map((from) => {
      const process = createProcess();
      for (let index = from; index < from + 200; index++) process.firings.series({ mandate: `mnd_${index}` }).value = 2;
      process.firings.series({ mandate: "other" }).value = 1;
      return process;
    });
    const before = firingsOf(await pageOf(sums, processes));
    const named = Array.from({ length: 200 }, (_, index) => `mnd_${index}`);
    expect([...before.keys()]).to.have.members([...named, "other"]);
    expect(before.get("mnd_149")).to.equal(2);
    expect(before.get("mnd_199")).to.equal(4);
    expect([...before.values()].reduce((sum, value) => sum + value)).to.equal(3 * (200 * 2 + 1));
    for (const place of processes.keys()) sums.end(place);
    const later = createProcess();
    later.firings.series({ mandate: "mnd_400" }).value = 1;
    const after = firingsOf(await pageOf(sums, [later]));
    expect(after).to.deep.equal(new Map([...before, ["other", (before.get("other") ?? 0) + 1]]));
  });
});
