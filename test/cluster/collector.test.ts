import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { scavengesAlone } from "../../src/cluster/collector.ts";

const MODULE = join(import.meta.dirname, "..", "..", "src", "cluster", "collector.ts");

/** What V8 tells by the flags of a process with so many cores that makes garbage and keeps some for a while. */
async function traceOn(cores: number, ...flags: string[]): Promise<string> {
  const program = `
    import { setCollector } from ${JSON.stringify(MODULE)};
    setCollector(${cores}, 1);
    let kept = [];
    for (let round = 0; round < 40; round++) {
      const next = [];
      for (let index = 0; index < 40_000; index++) next.push({ list: [index], object: { index } });
      kept = next;
    }`;
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    [...flags, "--input-type=module", "--eval", program],
    { maxBuffer: 16_777_216 },
  );
  // Where V8 says which flags it does not know.
  expect(stderr).to.equal("");
  return stdout;
}

/** Milliseconds that helping threads spent on each collection of young garbage. */
async function helpOnCores(cores: number): Promise<number[]> {
  const trace = await traceOn(cores, "--trace-gc-nvp");
  return [...trace.matchAll(/ gc=s .* background\.scavenge\.parallel=([\d.]+)/g)].map(([, ms]) => Number(ms));
}

describe("the collector of young garbage", () => {
  it("has no help where the processes have fewer than four cores each.", () => {
    expect([1, 2, 4, 8].map((processes) => scavengesAlone(16, processes))).to.eql([false, false, false, true]);
    expect(scavengesAlone(2, 1)).to.equal(true);
  });

  it("works without other threads then, and with them on a larger machine.", async () => {
    const [few, many] = [await helpOnCores(2), await helpOnCores(64)];
    expect(few).to.not.be.empty;
    expect(few.filter((ms) => ms > 0)).to.eql([]);
    expect(many.filter((ms) => ms > 0)).to.not.be.empty;
  });
});

describe("the collector", () => {
  it("makes nothing among the old objects because such objects lived for long before.", async () => {
    expect(await traceOn(2, "--trace-pretenuring", "--trace-pretenuring-statistics")).to.equal("");
  });
});
