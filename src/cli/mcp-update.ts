import type { JsonRecord } from "../verify/json.ts";
import { type Command, CommandError } from "./command.ts";
import { LIMIT_DETAILS, LIMIT_OPTIONS, limitsFrom } from "./mcp-limits.ts";
import { pathOf, secretsFrom, serverLine } from "./mcp-server.ts";
import { serviceFrom } from "./service.ts";

/** `agentctl mcp update` changes an MCP server. */
export const mcpUpdate: Command = {
  name: "mcp update",
  arguments: "<name> [url]",
  summary: "change an MCP server; options that are not given leave their settings as they are",
  details: [
    "",
    ...LIMIT_DETAILS,
    "A list that is given replaces the present one, and an empty value clears it: `--scrub=`. `--remove-header` removes a header.",
  ],
  options: ["url", "key", "header", "remove-header", "quarantine", "open", ...LIMIT_OPTIONS],
  async run(input) {
    const [name = "", url] = input.positionals;
    if (input.has("quarantine") && input.has("open")) throw new CommandError("give either --quarantine or --open");
    const headers = [
      ...secretsFrom(input, "header"),
      ...input.options("remove-header").map((header) => ({ name: header, value: "" })),
    ];
    const body = {
      ...(url === undefined ? {} : { url }),
      ...(headers.length === 0 ? {} : { headers }),
      ...(input.has("quarantine") ? { mode: "quarantine" } : {}),
      ...(input.has("open") ? { mode: "open" } : {}),
      ...limitsFrom(input),
    };
    if (Object.keys(body).length === 0) throw new CommandError("give something to change; see --help");
    const json = await serviceFrom(input)(pathOf(name), { method: "PATCH", body });
    const { server } = json as { server: JsonRecord };
    return { lines: [`changed ${serverLine(server)}`], json };
  },
};
