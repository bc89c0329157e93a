/*
 * Appends to the workspace `default` of a database until its time is over, and then writes what it was told of:
 * one line for each decision, its id and its index. Arguments: the database's URL, an agent, milliseconds.
 */

import { once } from "node:events";
import { createInterface } from "node:readline";
import { registerAgent } from "../../src/registry/agents.ts";
import { decideOn } from "../support/decide-on.ts";
import { openLogOf } from "../support/open-log.ts";
import { actionOf } from "./action.ts";

const CALLERS = 8;
/** Decisions of a caller for each change, since changes are appended in another way. */
const DECISIONS_A_CHANGE = 25;
const [url = "", agentId = "", durationMs = "0"] = process.argv.slice(2);
const NEW_AGENT = { name: "new", framework: "", description: "", capabilities: [] };

await using cleanup = new AsyncDisposableStack();
const log = await openLogOf(url, cleanup);
process.stdout.write("ready\n");
await once(createInterface(process.stdin), "line");

const endsAt = performance.now() + Number(durationMs);
const told: string[] = [];

async function call(): Promise<void> {
  for (let count = 1; performance.now() < endsAt; count++) {
    const { decisionId, seq } = await decideOn(log, actionOf(agentId));
    told.push(`${decisionId} ${seq}`);
    if (count % DECISIONS_A_CHANGE !== 0) continue;
    await registerAgent(log, "key_test", { ...NEW_AGENT, allowedActionTypes: [], deniedActionTypes: [] });
  }
}

await Promise.all(Array.from({ length: CALLERS }, call));
process.stdout.write(`${told.join("\n")}\nend\n`);
