import { assertSound } from "./assert-sound.ts";
import { runHostile, runHostileGateway, runHostileWire } from "./run.ts";

/** Seeds with which every disguise comes to what is right for it, rare as it is. */
const SEED = 23;
const WIRE_SEED = 24;
const GATEWAY_SEED = 25;
const CASES = 5_000;
/** Of the cases, those that are sent to the program as a process. */
const WIRE_CASES = 900;
/** Cases for the gateway and the hooks, in addition. */
const GATEWAY_CASES = 1_200;
/** Cases of each family, at the least. */
const LEAST = 20;
/** Draws of each disguise, at the least. */
const LEAST_DRAWS = 2;

describe("hostile requests", function () {
  this.timeout(600_000);
  it("are refused for a named reason, or get the decision of their plain forms.", async () => {
    assertSound(await runHostile(SEED, CASES - WIRE_CASES), LEAST, LEAST_DRAWS);
  });

  it("are so as bytes over HTTP and gRPC and on streams, whose key may end.", async () => {
    assertSound(await runHostileWire(WIRE_SEED, WIRE_CASES), LEAST, LEAST_DRAWS);
  });

  it("let nothing through the MCP gateway and the hooks of coding agents that their plain forms would not.", async () => {
    assertSound(await runHostileGateway(GATEWAY_SEED, GATEWAY_CASES), LEAST, 1);
  });
});
