import { readText } from "./bundle.ts";
import type { Command } from "./command.ts";

/** A position in a text: line and column from 1, in UTF-16 code units. */
interface Position {
  readonly line: number;
  readonly column: number;
}

/** Creates a function that converts offsets to positions. The offsets MUST ascend. */
function createPositions(text: string): (offset: number) => Position {
  let line = 1;
  let lineStart = 0;
  return (offset) => {
    for (let end = text.indexOf("\n", lineStart); end !== -1 && end < offset; end = text.indexOf("\n", lineStart)) {
      line += 1;
      lineStart = end + 1;
    }
    return { line, column: offset - lineStart + 1 };
  };
}

/** `agentctl redact scan` lists the personal values in a file by position and kind. */
export const redactScan: Command = {
  name: "redact scan",
  arguments: "<file>",
  summary: "list the personal values in a text file, by place and kind",
  details: [
    "Runs every detector of the redaction proxy locally, without the service and so without a workspace's registered values.",
    "Prints `line:column kind length` for each finding, never the text itself.",
  ],
  options: [],
  async run({ positionals: [path = ""] }) {
    const text = await readText(path);
    const positionOf = createPositions(text);
    // The detectors take three times as long to load as all other commands.
    const { compileScrubber } = await import("../redaction/text/scrubber.ts");
    const findings = compileScrubber({ registered: [], allow: [] })
      .find(text)
      .map(({ kind, start, end }) => ({ kind, ...positionOf(start), start, end }));
    const lines = findings.map(({ kind, line, column, start, end }) => `${line}:${column} ${kind} ${end - start}`);
    return { lines: [...lines, `${findings.length} found`], json: { findings } };
  },
};
