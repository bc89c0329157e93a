import { assertSound } from "./assert-sound.ts";
import { runHostile, runHostileGateway, runHostileWire } from "./run.ts";

const SEED = 2_100;
const CASES = 100_000;
/** Of the cases, those that are sent to the program as a process. */
const WIRE_CASES = 8_000;
/** Of the cases, those for the gateway and the hooks. */
const GATEWAY_CASES = 20_000;
/** Cases of each family, at the least. */
const LEAST = 300;
/** Draws of each disguise, at the least. */
const LEAST_DRAWS = 8;

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
