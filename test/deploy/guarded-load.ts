/*
 * Calls a guarded function over and over, in a process that trusts the certificate of its environment. Writes the id of each
 * decision as a line. Arguments: base URL, gRPC URL or an empty one, key, agent. Ends with the calls in flight once its input ends;
 * ends with an error when a call fails.
 */
import { createNodeControlPlane } from "../../src/client/node/index.ts";

const CALLERS = 8;
const [, , baseUrl = "", grpcUrl = "", apiKey = "", agentId = ""] = process.argv;
const controlPlane = createNodeControlPlane({ baseUrl, apiKey, ...(grpcUrl !== "" && { grpcUrl }) });
let isOver = false;
process.stdin.on("end", () => {
  isOver = true;
});
process.stdin.resume();

const guarded = controlPlane.guard((value: string) => value, {
  agentId,
  actionType: "note.write",
  toArguments: (value) => ({ value }),
  abortWhenRevoked: false,
  onDecision: ({ decisionId }) => void process.stdout.write(`${decisionId}\n`),
});

async function callInTurn(caller: number): Promise<void> {
  for (let count = 0; !isOver; count++) await guarded(`${caller} ${count}`);
}

await Promise.all(Array.from({ length: CALLERS }, (_, caller) => callInTurn(caller)));
controlPlane.close();
