import { compileScrubber } from "../redaction/text/index.ts";
import { readText } from "./bundle.ts";
import type { Command } from "./command.ts";

/** A place in a text as people count it: line and column from 1, in UTF-16 code units. */
interface Place {
  readonly line: number;
  readonly column: number;
}

/** Gives the places of offsets, which MUST come in ascending order. */
function createPlaces(text: string): (offset: number) => Place {
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

/** `agentctl redact scan`: where a file holds personal values, without the values. */
export const redactScan: Command = {
  name: "redact scan",
  arguments: "<file>",
  summary: "says where a file of text holds personal values, and of which kind",
  details: [
    "Looks with every detector of the redaction proxy, here and without the service. Values that a workspace registered are not",
    "known here. Prints `line:column kind length` for each finding and never what stands there.",
  ],
  options: [],
  async run({ positionals: [path = ""] }) {
    const text = await readText(path);
    const placeOf = createPlaces(text);
    const findings = compileScrubber({ registered: [], allow: [] })
      .find(text)
      .map(({ kind, start, end }) => ({ kind, ...placeOf(start), start, end }));
    const lines = findings.map(({ kind, line, column, start, end }) => `${line}:${column} ${kind} ${end - start}`);
    return { lines: [...lines, `${findings.length} found`], json: { findings } };
  },
};
