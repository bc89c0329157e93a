/* Runs one hostile case again: `node test/hostile/repeat.ts services|wire|gateway <seed> <case> [<choice>,<choice>,…]`. */

import { repeatHostile, type StageName } from "./run.ts";

const [stage = "", seed = "", number = "", choices] = process.argv.slice(2);
const options = choices === undefined ? {} : { choices: choices.split(",").map(Number) };
const finding = await repeatHostile(stage as StageName, Number(seed), Number(number), options);
console.log(finding ?? "nothing is wrong");
process.exit(finding === undefined ? 0 : 1);
