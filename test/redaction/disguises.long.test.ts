import { expect } from "chai";
import { DRAWN, runDisguises } from "./disguises.ts";

/** `DISGUISES=50000` takes two minutes. */
const CASES = Number(process.env.DISGUISES ?? 15_000);

describe("very many personal values in disguise", () => {
  it("are hidden in the proxy, up and down.", async function () {
    this.timeout(300_000);
    const counts = await runDisguises(CASES, Number(process.env.SEED ?? Date.now() % 1_000_000));
    for (const name of DRAWN) expect(counts.get(name) ?? 0, name).to.be.at.least(CASES / 400);
  });
});
