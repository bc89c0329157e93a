import { assertSound } from "./assert-sound.ts";
import { runHostile, runHostileGateway, runHostileWire } from "./run.ts";

const SEED = 2_100;
/** `HOSTILE=100000` takes half an hour. */
const CASES = Number(process.env.HOSTILE ?? 40_000);
/** Of the cases, those that are sent to the program as a process. */
const WIRE_CASES = Math.round(CASES * 0.08);
/** Of the cases, those for the gateway and the hooks. */
const GATEWAY_CASES = Math.round(CASES * 0.2);
/** Cases of each family, at the least. */
const LEAST = Math.floor(CASES * 0.003);
/** Draws of each disguise, at the least. */
const LEAST_DRAWS = Math.floor(CASES * 0.000_08);

/** The long form of `hostile.test.ts`. */
describe("many hostile requests", () => {
  it("are refused for a named reason, or get the decision of their plain forms.", async function () {
    this.timeout(1_800_000);
    assertSound(await runHostile(SEED, CASES - WIRE_CASES - GATEWAY_CASES), LEAST, LEAST_DRAWS);
  });

  it("are so as bytes over HTTP and gRPC and on streams, whose key may end.", async function () {
    this.timeout(1_800_000);
    assertSound(await runHostileWire(SEED, WIRE_CASES), LEAST, LEAST_DRAWS);
  });

  it("let nothing through the MCP gateway and the hooks of coding agents that their plain forms would not.", async function () {
    this.timeout(1_800_000);
    assertSound(await runHostileGateway(SEED, GATEWAY_CASES), LEAST, LEAST_DRAWS);
  });
});
