import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { scavengesAlone } from "../../src/cluster/index.ts";

const MODULE = join(import.meta.dirname, "..", "..", "src", "cluster", "scavenger.ts");

/** Milliseconds that helping threads spent on each collection of young garbage in a process with so many cores. */
async function helpOnCores(cores: number): Promise<number[]> {
  const program = `
    import { setScavenger } from ${JSON.stringify(MODULE)};
    setScavenger(${cores}, 1);
    for (let round = 0, kept = []; round < 20; round++, kept = []) {
      for (let index = 0; index < 40_000; index++) kept.push({ list: [index], object: { index } });
    }`;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--trace-gc-nvp", "--input-type=module", "--eval", program],
    { maxBuffer: 16_777_216 },
  );
  return [...stdout.matchAll(/ gc=s .* background\.scavenge\.parallel=([\d.]+)/g)].map(([, ms]) => Number(ms));
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
