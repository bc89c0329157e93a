import type { JsonRecord } from "../verify/json.ts";
import { type Command, CommandError } from "./command.ts";
import { LIMIT_DETAILS, LIMIT_OPTIONS, limitsFrom } from "./mcp-limits.ts";
import { listedTexts, pathOf, secretsFrom, serverLine } from "./mcp-server.ts";
import { serviceFrom } from "./service.ts";

/** `agentctl mcp update` changes an MCP server. */
export const mcpUpdate: Command = {
  name: "mcp update",
  arguments: "<name> [url]",
  summary: "change an MCP server; options that are not given leave their settings as they are",
  details: [
    "",
    ...LIMIT_DETAILS,
    "A URL of another origin drops the stored headers that are not given again, and its definitions wait to be accepted, also",
    "those of a server in mode open, unless `--open` is given.",
    "A list that is given replaces the present one, and an empty value clears it: `--scrub=`. `--remove-header` removes a header.",
  ],
  options: ["url", "key-file", "header", "remove-header", "quarantine", "open", ...LIMIT_OPTIONS],
  exit: "failure",
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
    return { lines: [`changed ${serverLine(server)}`, ...originLines(json)], json };
  },
};

/** Lines about what a new origin of the URL took away. */
function originLines(json: JsonRecord): string[] {
  const dropped = listedTexts(json, "dropped_headers").join(", ");
  const quarantined = Number(json.quarantined);
  return [
    ...(dropped === "" ? [] : [`  dropped    ${dropped}: the URL has a new origin; set them again with --header`]),
    ...(quarantined > 0 ? [`  to accept  ${quarantined} definitions, since the URL has a new origin`] : []),
  ];
}
