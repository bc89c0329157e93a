import { isJsonRecord, type JsonRecord, listAt, stringFrom, textAt, valueAt } from "../verify/json.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { LIMIT_DETAILS, LIMIT_OPTIONS, limitsFrom } from "./mcp-limits.ts";
import { attentionLines, PATH, pathOf, protectionLines, secretsFrom, serverLine } from "./mcp-server.ts";
import { serviceFrom } from "./service.ts";

const PAGE_SIZE = 500;
const OPTIONS = ["url", "key-file"] as const;
/** Milliseconds to list a server's tools: a command may download its program first. */
const START_MS = 120_000;

/** Reads every page of a list. */
async function readAll(
  input: CommandInput,
  path: string,
  list: string,
  filter: Readonly<Record<string, string>> = {},
): Promise<JsonRecord[]> {
  const call = serviceFrom(input);
  const found: JsonRecord[] = [];
  for (let pageToken = ""; ; ) {
    const page = await call(path, { query: { ...filter, page_size: PAGE_SIZE, page_token: pageToken } });
    found.push(...listAt(page, list).filter(isJsonRecord));
    const next = stringFrom(page.next_page_token);
    if (next === undefined || next === "") return found;
    pageToken = next;
  }
}

/** `agentctl mcp add` registers an MCP server behind the gateway. */
export const mcpAdd: Command = {
  name: "mcp add",
  arguments: "<name> [url] [-- program …]",
  summary: "register an MCP server behind the gateway, and pin its definitions",
  details: [
    "",
    "A server has a URL, or a program that runs on the service's host (for admins of the workspace `default`): everything after",
    "`--`, as in `agentctl mcp add files -- npx -y some-server`, or `--command` with `--arg`s. The protections against it are listed.",
    "`--header` and `--env` take a name, and the value from an environment variable: `--header authorization=BANK_TOKEN`. With",
    "`--quarantine` its definitions are hidden until `agentctl mcp accept`.",
    ...LIMIT_DETAILS,
  ],
  options: [...OPTIONS, "command", "arg", "env", "header", "quarantine", ...LIMIT_OPTIONS],
  exit: "failure",
  takesProgram: true,
  async run(input) {
    const [name = "", url] = input.positionals;
    const program = programFrom(input);
    if ((url === undefined) === (program === undefined))
      throw new CommandError("give either a URL, or a program: after `--`, or by --command");
    const target = program === undefined ? { url } : { ...program, env: secretsFrom(input, "env") };
    const body = {
      name,
      ...target,
      mode: input.has("quarantine") ? "quarantine" : "open",
      ...limitsFrom(input),
      ...(url === undefined ? {} : { headers: secretsFrom(input, "header") }),
    };
    const call = serviceFrom(input);
    const { server } = (await call(PATH, { method: "POST", body })) as { server: JsonRecord };
    const tools = await call(pathOf(name, ":refresh"), { method: "POST", body: {}, timeoutMs: START_MS });
    const lines = [`registered ${serverLine(server)}`, ...protectionLines(server), ...refreshLines(tools)];
    return { lines, json: { server, tools } };
  },
};

function programFrom(input: CommandInput): { readonly command: string; readonly args: readonly string[] } | undefined {
  const option = input.option("command");
  const [command, ...args] = input.program;
  if (command !== undefined && option !== undefined)
    throw new CommandError("give the program either after `--` or by --command");
  if (command !== undefined) return { command, args: [...input.options("arg"), ...args] };
  return option === undefined ? undefined : { command: option, args: input.options("arg") };
}

function refreshLines(found: JsonRecord): string[] {
  const others = listAt(found, "definitions")
    .filter((each) => isJsonRecord(each) && each.kind !== "tool")
    .map((each) => `  ${wordOf(each).padEnd(9)}  ${countsOf(each)}`);
  const unusable = listAt(found, "unusable").map(
    (each) => `  unusable   ${textAt(each, "name")}: ${textAt(each, "reason")}`,
  );
  return [
    `  tools      ${String(found.active)} tools in force, ${String(found.quarantined)} to accept`,
    ...others,
    ...unusable,
  ];
}

/** The word for several definitions of one kind. */
const wordOf = (counts: unknown): string => {
  const kind = textAt(counts, "kind");
  return { prompt: "prompts", resource: "resources", resource_template: "templates" }[kind] ?? kind;
};

const countsOf = (counts: unknown): string =>
  `${String(valueAt(counts, "active"))} in force, ${String(valueAt(counts, "quarantined"))} to accept`;

/** `agentctl mcp list` lists the MCP servers behind the gateway. */
export const mcpList: Command = {
  name: "mcp list",
  arguments: "",
  summary: "list the MCP servers behind the gateway",
  details: [],
  options: [...OPTIONS, "search"],
  exit: "failure",
  async run(input) {
    const search = input.option("search");
    const servers = await readAll(input, PATH, "servers", search === undefined ? {} : { search });
    const lines = servers.flatMap((server) => [
      serverLine(server),
      ...attentionLines(server),
      ...protectionLines(server),
    ]);
    return { lines: servers.length === 0 ? ["no MCP servers"] : lines, json: { servers } };
  },
};

/** `agentctl mcp remove` removes an MCP server. */
export const mcpRemove: Command = {
  name: "mcp remove",
  arguments: "<name>",
  summary: "remove an MCP server with its pinned definitions",
  details: [],
  options: [...OPTIONS, "yes"],
  exit: "failure",
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
  exit: "failure",
  async run(input) {
    const [name = ""] = input.positionals;
    const refresh = { method: "POST", body: {}, timeoutMs: START_MS } as const;
    const refreshed = await serviceFrom(input)(pathOf(name, ":refresh"), refresh);
    const tools = await readAll(input, pathOf(name, "/tools"), "tools");
    return { lines: [...tools.flatMap(toolLines), ...refreshLines(refreshed)], json: { tools, refreshed } };
  },
};

/** The lines about one tool or other definition. `command` accepts what waits, without its version. */
function definitionLines(name: string, definition: JsonRecord, command: string): string[] {
  const versionOf = (which: string): string | undefined => {
    const version = valueAt(definition, `${which}.version`);
    return version === undefined ? undefined : String(version);
  };
  const active = versionOf("active");
  const pending = versionOf("pending");
  const state = active === undefined ? "quarantined" : `version ${active}`;
  const waits = pending === undefined ? "" : `, version ${pending} waits: ${command} ${pending}`;
  const changes = (valueAt(definition, "pending.changes") ?? []) as readonly string[];
  return [`${name}  ${state}${waits}`, ...changes.map((change) => `    ${change}`)];
}

function toolLines(tool: JsonRecord): string[] {
  const name = textAt(tool, "name");
  return definitionLines(name, tool, `agentctl mcp accept <server> ${quoted(name)}`);
}

/** `agentctl mcp definitions` reads all definitions of an MCP server again and lists them. */
export const mcpDefinitions: Command = {
  name: "mcp definitions",
  arguments: "<name>",
  summary: "list an MCP server's tools, prompts, resources, templates and instructions",
  details: ["", "Connects to the server first, and pins new definitions. `--kind` lists those of one kind."],
  options: [...OPTIONS, "kind"],
  exit: "failure",
  async run(input) {
    const [name = ""] = input.positionals;
    const kind = kindFrom(input);
    const refreshed = await serviceFrom(input)(pathOf(name, ":refresh"), { method: "POST", body: {} });
    const definitions = await readAll(
      input,
      pathOf(name, "/definitions"),
      "definitions",
      kind === undefined ? {} : { kind },
    );
    const lines = definitions.flatMap((each) => {
      const [of, id] = [textAt(each, "kind"), textAt(each, "id") || INSTRUCTIONS];
      return definitionLines(`${of} ${id}`, each, `agentctl mcp accept --kind ${of} ${name} ${quoted(id)}`);
    });
    return { lines: [...lines, ...refreshLines(refreshed)], json: { definitions, refreshed } };
  },
};

/** Quotes a word for a shell: a server chooses its names, and people copy the command. */
const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** Kinds of definitions; instructions have no name, and are named by their kind. */
const INSTRUCTIONS = "instructions";
const KINDS = ["tool", "prompt", "resource", "resource_template", INSTRUCTIONS];

/** Reads `--kind`. Throws CommandError for an unknown one. */
function kindFrom(input: CommandInput): string | undefined {
  const kind = input.option("kind");
  if (kind === undefined || KINDS.includes(kind)) return kind;
  throw new CommandError(`--kind is ${KINDS.slice(0, -1).join(", ")} or ${INSTRUCTIONS}`);
}

/** `agentctl mcp accept` puts a waiting definition in force. */
export const mcpAccept: Command = {
  name: "mcp accept",
  arguments: "<name> <id> <version>",
  summary: "put the waiting definition of an MCP server in force",
  details: [
    "",
    "<id> is the name of a tool; with `--kind`, of a prompt, a URI or a URI template, or `instructions`. <version> is the version",
    "that `agentctl mcp tools` or `mcp definitions` showed. If a newer one has come since, the command is refused.",
  ],
  options: [...OPTIONS, "kind"],
  exit: "failure",
  async run(input) {
    const [name = "", id = "", version = ""] = input.positionals;
    const kind = kindFrom(input) ?? "tool";
    if (!/^[1-9]\d{0,8}$/.test(version)) throw new CommandError("<version> is a number from 1");
    if (kind === INSTRUCTIONS && id !== INSTRUCTIONS) throw new CommandError("<id> of instructions is `instructions`");
    const isTool = kind === "tool";
    const path = isTool ? `/tools/${encodeURIComponent(id)}:accept` : "/definitions:accept";
    const named = isTool ? {} : { kind, id: kind === INSTRUCTIONS ? "" : id };
    const body = { ...named, version: Number(version) };
    const accepted = await serviceFrom(input)(pathOf(name, path), { method: "POST", body });
    return { lines: [`accepted version ${version} of ${id}`], json: accepted };
  },
};
