#!/usr/bin/env node
import { once } from "node:events";
import { EXIT, runAgentctl } from "./run.ts";

// The reader of the pipe has closed it.
process.stdout.once("error", () => process.exit(EXIT.unusable));

try {
  process.exitCode = await runAgentctl(process.argv.slice(2), {
    env: process.env,
    async write(text) {
      if (!process.stdout.write(text)) await once(process.stdout, "drain");
    },
    note: (text) => void process.stderr.write(text),
    isTerminal: process.stderr.isTTY,
  });
} catch (error) {
  // Node's own exit code for an exception, 1, would say `refused`.
  console.error(error);
  process.exitCode = EXIT.unusable;
}
