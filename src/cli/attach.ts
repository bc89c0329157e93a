import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isJsonRecord, type JsonRecord } from "../verify/json.ts";
import { type Command, CommandError, type CommandInput, type CommandReport } from "./command.ts";
import { addressFrom } from "./service.ts";

/** Environment variable with the agent's key. The settings contain its name, not the key. */
const KEY_VARIABLE = "ACP_AGENT_KEY";
const EVENT = "PreToolUse";
const DEFAULT_HOLD_SECONDS = 540;
const MAX_HOLD_SECONDS = 3_540;
/** Seconds for which the client waits longer than the service holds a call. */
const MARGIN_SECONDS = 60;
const OPTIONS = ["url", "agent", "settings", "hold"] as const;

/** Address, agent and timeout of a hook. */
interface HookTarget {
  readonly url: string;
  readonly agentId: string | undefined;
  /** Timeout of the client, seconds. */
  readonly timeout: number;
}

/** Settings file of a coding agent, and the hook in it. */
interface CodingAgentSettings {
  readonly path: string;
  /** End of the hook's URL, by which an earlier hook is recognised. */
  readonly endpoint: string;
  hookFor(target: HookTarget): JsonRecord;
}

const CLAUDE_CODE: CodingAgentSettings = {
  path: join(".claude", "settings.json"),
  endpoint: "/v1/hooks/claude-code",
  hookFor: ({ url, agentId, timeout }) => ({
    type: "http",
    url,
    headers: { "X-API-Key": `$${KEY_VARIABLE}`, ...(agentId === undefined ? {} : { "X-Agent-Id": agentId }) },
    allowedEnvVars: [KEY_VARIABLE],
    timeout,
    // Without it the client runs the tool when the hook cannot be reached.
    onFailure: "block",
  }),
};

const CODEX: CodingAgentSettings = {
  path: join(".codex", "hooks.json"),
  endpoint: "/v1/hooks/codex",
  hookFor: ({ url, agentId, timeout }) => {
    const agent = agentId === undefined ? "" : ` -H 'X-Agent-Id: ${agentId}'`;
    const headers = `-H "X-API-Key: $${KEY_VARIABLE}"${agent} -H 'Content-Type: application/json'`;
    const call = `curl -sS --fail --max-time ${timeout - MARGIN_SECONDS / 2} ${headers} --data-binary @- ${quoted(url)}`;
    // Exit code 2 blocks the call; the client runs the tool after any other failure.
    const blocked = "{ echo 'the control plane gave no answer' >&2; exit 2; }";
    return { type: "command", command: `${call} || ${blocked}`, timeout };
  },
};

/** Quotes a text for a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const DETAILS = [
  "",
  "Adds a hook to the settings of the project in this folder. It replaces the hook of an earlier run; other settings stay.",
  `The settings name the environment variable ${KEY_VARIABLE}: set it to the agent's key before you start the client. Give`,
  "`--agent` if the key is not bound to an agent. If the control plane does not answer, the client blocks the tool.",
];

/** `agentctl attach claude-code` installs the hook for Claude Code. */
export const attachClaudeCode: Command = {
  name: "attach claude-code",
  arguments: "",
  summary: "have the control plane decide every tool call of Claude Code",
  details: [...DETAILS, "Needs Claude Code 2.1.295 or later, which knows `onFailure`."],
  options: OPTIONS,
  run: (input) => attach(CLAUDE_CODE, input),
};

/** `agentctl attach codex` installs the hook for Codex. */
export const attachCodex: Command = {
  name: "attach codex",
  arguments: "",
  summary: "have the control plane decide every tool call of Codex",
  details: [...DETAILS, "The hook calls `curl`. Codex asks you to trust it the first time."],
  options: OPTIONS,
  run: (input) => attach(CODEX, input),
};

async function attach(client: CodingAgentSettings, input: CommandInput): Promise<CommandReport> {
  const hold = holdFrom(input.option("hold"));
  const { origin, pathname } = addressFrom(input);
  const url = `${origin}${pathname.replace(/\/$/, "")}${client.endpoint}?hold_seconds=${hold}`;
  const agentId = input.option("agent");
  if (agentId !== undefined && !/^agt_[a-z2-7]{26}$/.test(agentId)) {
    throw new CommandError(`--agent ${agentId}: not an agent's id, which begins with agt_`);
  }
  const path = input.option("settings") ?? client.path;
  const before = await settingsAt(path);
  const hook = client.hookFor({ url, agentId, timeout: hold + MARGIN_SECONDS });
  await writeSettings(path, withHook(before, hook, client.endpoint, path));
  return {
    lines: [
      `attached: ${path} asks ${url} before a tool runs`,
      `  key        set ${KEY_VARIABLE} to the agent's key before you start the client`,
      `  held       a call waits ${hold} s for a person`,
    ],
    json: { settings: path, url, key_variable: KEY_VARIABLE, hold_seconds: hold },
  };
}

function holdFrom(text = String(DEFAULT_HOLD_SECONDS)): number {
  if (/^\d{1,4}$/.test(text) && Number(text) <= MAX_HOLD_SECONDS) return Number(text);
  throw new CommandError(`--hold ${text}: give a whole number of seconds from 0 to ${MAX_HOLD_SECONDS}`);
}

async function settingsAt(path: string): Promise<JsonRecord> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "{}";
    throw new CommandError(`\`${path}\` cannot be read: ${error.message}`);
  });
  const settings = parsed(text.trim() === "" ? "{}" : text);
  if (isJsonRecord(settings)) return settings;
  throw new CommandError(`\`${path}\` is not a JSON object; nothing was changed`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the settings with the hook, without those of earlier runs. Throws `CommandError` for hooks of another form. */
function withHook(settings: JsonRecord, hook: JsonRecord, endpoint: string, path: string): JsonRecord {
  const hooks = settings.hooks ?? {};
  const groups = isJsonRecord(hooks) ? (hooks[EVENT] ?? []) : undefined;
  if (!isJsonRecord(hooks) || !Array.isArray(groups)) {
    throw new CommandError(`\`${path}\` has \`hooks\` that are not an object of lists; nothing was changed`);
  }
  const others = groups.flatMap((group) => {
    if (!isJsonRecord(group) || !Array.isArray(group.hooks)) return [group];
    const left = group.hooks.filter((each) => !JSON.stringify(each).includes(endpoint));
    return left.length === 0 && group.hooks.length > 0 ? [] : [{ ...group, hooks: left }];
  });
  return { ...settings, hooks: { ...hooks, [EVENT]: [...others, { hooks: [hook] }] } };
}

/** Replaces the file atomically, so that a client never reads half of it. */
async function writeSettings(path: string, settings: JsonRecord): Promise<void> {
  const draft = `${path}.${process.pid}.new`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(draft, `${JSON.stringify(settings, undefined, 2)}\n`);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw new CommandError(`\`${path}\` cannot be written: ${(error as Error).message}`);
  }
}
