import { expect } from "chai";
import { DRAWN, runDisguises } from "./disguises.ts";

const CASES = 5_000;

describe("personal values in disguise", () => {
  it("are hidden in the proxy, up and down, as their plain forms are.", async () => {
    const counts = await runDisguises(CASES, Number(process.env.SEED ?? 1));
    for (const name of DRAWN) expect(counts.get(name) ?? 0, name).to.be.at.least(CASES / 400);
  });
});
