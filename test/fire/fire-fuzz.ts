import { randomInt } from "node:crypto";
import { startServer } from "../support/server.ts";
import { registerAgents } from "./agents.ts";
import { runFuzz } from "./fuzz.ts";
import type { Actor } from "./retrying-callers.ts";

const MILLISECONDS = 600_000;
const LANES = 8;

/** Sends changed bytes for ten minutes: `npm run fire -- fuzz [SEED]`. Resolves with whether nothing was wrong. */
export async function fireFuzz([given]: readonly string[]): Promise<boolean> {
  const seed = given === undefined ? randomInt(2 ** 31) : Number(given);
  console.log(`seed ${seed}`);
  const server = await startServer({ env: { ACP_LOG_LEVEL: "error" } });
  try {
    const [actor] = (await registerAgents(server, 1)) as [Actor];
    const { cases, answers, findings } = await runFuzz(server, actor, {
      seed,
      milliseconds: MILLISECONDS,
      lanes: LANES,
    });
    for (const finding of findings) console.log(finding);
    for (const counts of [cases, answers])
      console.log(
        Object.entries(counts)
          .map(([name, count]) => `${name}: ${count}`)
          .join(", "),
      );
    console.log(`findings: ${findings.length}`);
    return findings.length === 0;
  } finally {
    await server.stop();
  }
}
