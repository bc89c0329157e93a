/* A process with a guarded function, for tests that kill it. Its tool appends a line to a file. Argument: a `ProcessOptions` as JSON. */
import { appendFileSync } from "node:fs";
import { createNodeControlPlane } from "../../src/client/node/index.ts";

/** What the process does. */
export interface ProcessOptions {
  readonly baseUrl: string;
  /** Undefined for calls over HTTP alone. */
  readonly grpcUrl?: string | undefined;
  readonly apiKey: string;
  readonly agentId: string;
  readonly requestId: string;
  /** File that each run appends a line to. */
  readonly file: string;
  /** Where the process stays until it is killed: after the decision, or when the function has run. Undefined: nowhere. */
  readonly staysAt?: "decided" | "ran" | undefined;
}

const { file, staysAt, requestId, agentId, ...address } = JSON.parse(process.argv[2] ?? "") as ProcessOptions;

/** Says where the process is; stays there for ever if it should. */
async function at(place: NonNullable<ProcessOptions["staysAt"]>): Promise<void> {
  if (place !== staysAt) return;
  console.log(place);
  // A timer keeps the process alive.
  await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));
}

const controlPlane = createNodeControlPlane(address);
const pay = controlPlane.guard(
  async () => {
    appendFileSync(file, "paid\n");
    await at("ran");
    return "paid";
  },
  { agentId, actionType: "pay", onDecision: () => at("decided"), requestId },
);
console.log(await pay().catch((error: Error) => error.name));
controlPlane.close();
