#!/usr/bin/env node
import { once } from "node:events";
import { EXIT, runAgentctl } from "./run.ts";

// Whoever read the output has left: there is nobody to tell.
process.stdout.once("error", () => process.exit(EXIT.unusable));

try {
  process.exitCode = await runAgentctl(process.argv.slice(2), {
    env: process.env,
    async write(text) {
      if (!process.stdout.write(text)) await once(process.stdout, "drain");
    },
    note: (text) => void process.stderr.write(text),
  });
} catch (error) {
  // Not by Node's own exit code, which is the one that says `refused`.
  console.error(error);
  process.exitCode = EXIT.unusable;
}
