#!/usr/bin/env node
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { isatty } from "node:tty";
import { printable } from "./columns.ts";
import { EXIT, runAgentctl } from "./run.ts";

// Verifying hands Web Crypto millions of hashes that take shorter than waking a thread: with the usual four threads a log whose
// entries were sealed one by one takes a third longer.
process.env.UV_THREADPOOL_SIZE ??= "1";

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
    columns: process.stdout.isTTY ? process.stdout.columns : undefined,
    read: () => (isatty(0) ? undefined : readFileSync(0, "utf8")),
    async confirm(question) {
      if (!process.stdin.isTTY) return undefined;
      // On standard error, so that standard output holds the report alone.
      const terminal = createInterface({ input: process.stdin, output: process.stderr });
      const answer = await terminal.question(`${printable(question)} [y/N] `).finally(() => terminal.close());
      return /^y(es)?$/i.test(answer.trim());
    },
    async secret(question) {
      if (!process.stdin.isTTY) return undefined;
      process.stderr.write(question);
      // The terminal's own echo is off while readline reads from it; readline's goes nowhere.
      const output = new Writable({ write: (_chunk, _encoding, done) => done() });
      const terminal = createInterface({ input: process.stdin, output, terminal: true });
      const answer = await terminal.question("").finally(() => terminal.close());
      process.stderr.write("\n");
      return answer;
    },
  });
} catch (error) {
  // Node's own exit code for an exception, 1, would say `refused`.
  console.error(error);
  process.exitCode = EXIT.unusable;
}
