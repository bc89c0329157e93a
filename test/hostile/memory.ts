/*
 * Memory of the program under hostile requests. Run with `node test/hostile/memory.ts [wire|gateway] [cases]`: one process serves
 * all cases, 100,000 by default, and its memory after the first tenth is compared with that after all and a minute's rest.
 */
import { printGrowth } from "./assert-sound.ts";
import { runHostileGateway, runHostileWire } from "./run.ts";

const SEED = 2_101;
const REST_MS = 60_000;

const [stage = "wire", cases = "100000"] = process.argv.slice(2);
const run = stage === "gateway" ? runHostileGateway : runHostileWire;
const result = await run(SEED, Number(cases), REST_MS);
for (const finding of result.findings) console.log(finding);
const isSteady = printGrowth(result);
process.exit(isSteady && result.findings.length === 0 ? 0 : 1);
