import { isJsonRecord, type JsonRecord, listAt, stringFrom, textAt, valueAt } from "../verify/json.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { LIMIT_DETAILS, LIMIT_OPTIONS, limitsFrom } from "./mcp-limits.ts";
import { PATH, pathOf, secretsFrom, serverLine } from "./mcp-server.ts";
import { serviceFrom } from "./service.ts";

const PAGE_SIZE = 500;
const OPTIONS = ["url", "key"] as const;

/** Reads every page of a list. */
async function readAll(input: CommandInput, path: string, list: string): Promise<JsonRecord[]> {
  const call = serviceFrom(input);
  const found: JsonRecord[] = [];
  for (let pageToken = ""; ; ) {
    const page = await call(path, { query: { page_size: PAGE_SIZE, page_token: pageToken } });
    found.push(...listAt(page, list).filter(isJsonRecord));
    const next = stringFrom(page.next_page_token);
    if (next === undefined || next === "") return found;
    pageToken = next;
  }
}

/** `agentctl mcp add` registers an MCP server behind the gateway. */
export const mcpAdd: Command = {
  name: "mcp add",
  arguments: "<name> [url]",
  summary: "register an MCP server behind the gateway, and pin its tools",
  details: [
    "",
    "A server has a URL, or a `--command` with `--arg`s that runs on the service's host (for admins of the workspace `default`).",
    "`--header` and `--env` take a name, and the value from an environment variable: `--header authorization=BANK_TOKEN`. With",
    "`--quarantine` its tools are hidden until `agentctl mcp accept`.",
    ...LIMIT_DETAILS,
  ],
  options: [...OPTIONS, "command", "arg", "env", "header", "quarantine", ...LIMIT_OPTIONS],
  async run(input) {
    const [name = "", url] = input.positionals;
    const command = input.option("command");
    if ((url === undefined) === (command === undefined)) throw new CommandError("give either a URL or --command");
    const target =
      url === undefined ? { command, args: input.options("arg"), env: secretsFrom(input, "env") } : { url };
    const body = {
      name,
      ...target,
      mode: input.has("quarantine") ? "quarantine" : "open",
      ...limitsFrom(input),
      ...(url === undefined ? {} : { headers: secretsFrom(input, "header") }),
    };
    const call = serviceFrom(input);
    const { server } = (await call(PATH, { method: "POST", body })) as { server: JsonRecord };
    const tools = await call(pathOf(name, ":refresh"), { method: "POST", body: {} });
    return { lines: [`registered ${serverLine(server)}`, ...refreshLines(tools)], json: { server, tools } };
  },
};

function refreshLines(tools: JsonRecord): string[] {
  const counts = `${String(tools.active)} tools in force, ${String(tools.quarantined)} to accept`;
  const unusable = listAt(tools, "unusable").map(
    (each) => `  unusable   ${textAt(each, "name")}: ${textAt(each, "reason")}`,
  );
  return [`  tools      ${counts}`, ...unusable];
}

/** `agentctl mcp list` lists the MCP servers behind the gateway. */
export const mcpList: Command = {
  name: "mcp list",
  arguments: "",
  summary: "list the MCP servers behind the gateway",
  details: [],
  options: OPTIONS,
  async run(input) {
    const servers = await readAll(input, PATH, "servers");
    return { lines: servers.length === 0 ? ["no MCP servers"] : servers.map(serverLine), json: { servers } };
  },
};

/** `agentctl mcp remove` removes an MCP server. */
export const mcpRemove: Command = {
  name: "mcp remove",
  arguments: "<name>",
  summary: "remove an MCP server with its pinned definitions",
  details: [],
  options: [...OPTIONS, "yes"],
  async run(input) {
    const [name = ""] = input.positionals;
    if (!input.has("yes") && !(await input.io.confirm(`remove MCP server ${name}?`))) {
      throw new CommandError("nothing was removed; answer yes, or pass --yes");
    }
    const { server } = (await serviceFrom(input)(pathOf(name), { method: "DELETE" })) as { server: JsonRecord };
    return { lines: [`removed ${serverLine(server)}`], json: { server } };
  },
};

/** `agentctl mcp tools` reads the tools of an MCP server again and lists them. */
export const mcpTools: Command = {
  name: "mcp tools",
  arguments: "<name>",
  summary: "list an MCP server's tools, with changes that wait to be accepted",
  details: ["", "Connects to the server first, and pins new definitions."],
  options: OPTIONS,
  async run(input) {
    const [name = ""] = input.positionals;
    const refreshed = await serviceFrom(input)(pathOf(name, ":refresh"), { method: "POST", body: {} });
    const tools = await readAll(input, pathOf(name, "/tools"), "tools");
    return { lines: [...tools.flatMap(toolLines), ...refreshLines(refreshed)], json: { tools, refreshed } };
  },
};

function toolLines(tool: JsonRecord): string[] {
  const versionOf = (which: string): string | undefined => {
    const version = valueAt(tool, `${which}.version`);
    return version === undefined ? undefined : String(version);
  };
  const active = versionOf("active");
  const pending = versionOf("pending");
  const state = active === undefined ? "quarantined" : `version ${active}`;
  const waits =
    pending === undefined
      ? ""
      : `, version ${pending} waits: agentctl mcp accept <server> ${textAt(tool, "name")} ${pending}`;
  const changes = (valueAt(tool, "pending.changes") ?? []) as readonly string[];
  return [`${textAt(tool, "name")}  ${state}${waits}`, ...changes.map((change) => `    ${change}`)];
}

/** `agentctl mcp accept` puts a waiting definition in force. */
export const mcpAccept: Command = {
  name: "mcp accept",
  arguments: "<name> <tool> <version>",
  summary: "put the waiting definition of an MCP server's tool in force",
  details: [
    "",
    "<version> is the version that `agentctl mcp tools` showed. If a newer one has come since, the command is refused.",
  ],
  options: OPTIONS,
  async run(input) {
    const [name = "", tool = "", version = ""] = input.positionals;
    if (!/^[1-9]\d{0,8}$/.test(version)) throw new CommandError("<version> is a number from 1");
    const path = pathOf(name, `/tools/${encodeURIComponent(tool)}:accept`);
    const accepted = await serviceFrom(input)(path, { method: "POST", body: { version: Number(version) } });
    return { lines: [`accepted version ${version} of ${tool}`], json: accepted };
  },
};
