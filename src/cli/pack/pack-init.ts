import { writeFile } from "node:fs/promises";
import { type Command, CommandError } from "../command.ts";
import { serviceFrom } from "../service.ts";
import { draftToolFile } from "./draft-tools.ts";
import { registeredTools } from "./registered-tools.ts";

const DEFAULT_FILE = "tools.yaml";

/** `agentctl pack init` drafts the file of tools that a pack of provenance rules is made for. */
export const packInit: Command = {
  name: "pack init",
  arguments: "[file]",
  summary: "draft a file that says what the registered tools do, for `pack add`",
  details: [
    "",
    `Writes ${DEFAULT_FILE}, or <file>: for each tool its effect, the kinds of its arguments, what a session makes with it, and the words`,
    "of a prompt on which it belongs to a plan. All of it is guessed from names, descriptions and schemas; correct it before `pack add`.",
    "Results that are trusted are never guessed. A file that exists is not overwritten.",
  ],
  options: ["url", "key-file"],
  exit: "failure",
  async run(input) {
    const [file = DEFAULT_FILE] = input.positionals;
    const tools = [...(await registeredTools(serviceFrom(input))).values()];
    if (tools.length === 0)
      throw new CommandError("no tool is registered: register tools, or connect an MCP server, first");
    try {
      await writeFile(file, draftToolFile(tools), { flag: "wx" });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === "EEXIST") throw new CommandError(`${file} exists: name another file, or move it away`);
      throw new CommandError(`${file} cannot be written: ${code ?? message}`);
    }
    const lines = [
      `wrote ${tools.length} tools to ${file}`,
      `correct it, then: agentctl pack add standard --tools ${file}`,
    ];
    return { lines, json: { file, tools: tools.length } };
  },
};
