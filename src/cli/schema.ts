import { readFileSync } from "node:fs";
import { type Command, CommandError } from "./command.ts";

const FILE = new URL("../../gen/mandate.schema.json", import.meta.url);

/** `agentctl schema` prints the JSON Schema of files. */
export const schemaMandate: Command = {
  name: "schema mandate",
  arguments: "",
  summary: "print the JSON Schema of files of mandates, with which editors complete and check them",
  details: [
    "",
    "Needs no service, and is the schema of this version of `agentctl`. A service has its own at /schemas/mandate.json. Files of",
    "`mandate export` name it in their first line.",
  ],
  options: [],
  exit: "failure",
  async run() {
    const text = read();
    return { lines: text.trimEnd().split("\n"), json: JSON.parse(text) as object };
  },
};

function read(): string {
  try {
    return readFileSync(FILE, "utf8");
  } catch (error) {
    throw new CommandError(
      `the schema cannot be read: ${(error as NodeJS.ErrnoException).code}; install agentctl again`,
    );
  }
}
