import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { clientCertificateFrom } from "./client-certificate.ts";
import { type Command, CommandError, type CommandInput, type CommandReport } from "./command.ts";
import { CLAUDE_CODE, CODEX, type CodingAgent, endpointOf } from "./hook/coding-agents.ts";
import { commandLineFrom, type HookCommand } from "./hook/command-line.ts";
import {
  type Connection,
  connectionName,
  findKey,
  install,
  installationFor,
  USER_FOLDER,
} from "./hook/installation.ts";
import { MANAGED_HOOK, writeManaged } from "./hook/managed.ts";
import { EVENT, type HooksByEvent, PROMPT_EVENT, putHooks } from "./hook/settings-file.ts";
import { TRIAL_CALL, type Trial, tryHook } from "./hook/trial.ts";
import { findNode } from "./hook/user-node.ts";
import { addressFrom } from "./service.ts";

const DEFAULT_HOLD_SECONDS = 540;
const MAX_HOLD_SECONDS = 3_540;
/** Seconds for which the client waits longer than the service holds a call; the hook gives up in half of them. */
const MARGIN_SECONDS = 60;
/** Seconds that the client waits for the hooks after a tool and before a prompt, which give up in half of them. */
const TELLING_SECONDS = 40;
const OPTIONS = ["url", "agent", "settings", "hold", "managed", "root"] as const;

const DETAILS = [
  "",
  "Adds hooks to the settings of the project in this folder, in place of those of an earlier run; other settings stay. Tries",
  "one decision and says what it saw. Everything but an answer that is signed with the agent's key blocks the tool.",
  "",
  "The key comes from ACP_AGENT_KEY, or is asked for, and is kept with the address in a file of your home folder that only you",
  "can read. Give `--agent` if the key is not bound to an agent.",
  "",
  "NODE_EXTRA_CA_CERTS, AGENTCTL_CERT and AGENTCTL_CERT_KEY are for a service with certificates of its own. The hook keeps the",
  "first one's content, and reads the other two files with each call.",
  "",
  "`--managed` writes the configuration of the whole machine instead, which neither a project nor a user can switch off. It must",
  "belong to root. Each user runs the command once without `--managed`, with the same address and agent, to keep a key.",
];

/** `agentctl attach claude-code` installs the hook for Claude Code. */
export const attachClaudeCode: Command = {
  name: "attach claude-code",
  arguments: "",
  summary: "have the control plane decide every tool call of Claude Code",
  details: [...DETAILS, "", "Needs Claude Code 2.1.295 or later, and Node.js 20 or later."],
  options: OPTIONS,
  run: (input) => attach(CLAUDE_CODE, input),
};

/** `agentctl attach codex` installs the hook for Codex. */
export const attachCodex: Command = {
  name: "attach codex",
  arguments: "",
  summary: "have the control plane decide every tool call of Codex",
  details: [...DETAILS, "", "Needs Node.js 20 or later.", ...CODEX.gaps],
  options: OPTIONS,
  run: (input) => attach(CODEX, input),
};

/** Input of both ways of attaching. */
interface Request {
  readonly client: CodingAgent;
  readonly input: CommandInput;
  readonly connection: Connection;
  readonly endpoint: string;
  readonly holdSeconds: number;
  readonly node: string;
}

async function attach(client: CodingAgent, input: CommandInput): Promise<CommandReport> {
  const holdSeconds = holdFrom(input.option("hold"));
  const { origin, pathname } = addressFrom(input);
  const url = `${origin}${pathname.replace(/\/$/, "")}`;
  const agentId = input.option("agent");
  if (agentId !== undefined && !/^agt_[a-z2-7]{26}$/.test(agentId)) {
    throw new CommandError(`--agent ${agentId}: not an agent's id, which begins with agt_`);
  }
  const node = await findNode(input.io.env.PATH);
  const endpoint = `${url}${endpointOf(client)}`;
  const request = { client, input, connection: { url, agentId }, endpoint, holdSeconds, node };
  return input.has("managed") ? attachMachine(request) : attachProject(request);
}

async function attachProject({ client, input, connection, ...command }: Request): Promise<CommandReport> {
  if (input.option("root") !== undefined) throw new CommandError("--root: only with --managed");
  const { env } = input.io;
  // npm runs its scripts in the folder of the package, and names the one that it was called from.
  const folder = resolve(env.INIT_CWD || process.cwd());
  const path = resolve(folder, input.option("settings") ?? client.settings);
  const files = await installationFor(env, connection);
  const certificates = { ca: await authoritiesFrom(env.NODE_EXTRA_CA_CERTS), own: clientCertificateFrom(input.io) };
  const key = await findKey(input.io, files.connection);
  await install(files, connection, key, certificates);
  const line = { ...command, ...files, client: client.name };
  await putHooks(path, hooksOf(client, line), endpointOf(client));
  const trial = await tryHook(commandLineFrom({ ...line, holdSeconds: 0 }), folder);
  return {
    lines: [
      `attached: ${path} asks ${command.endpoint} before a tool runs`,
      `  hook       ${files.hook}, run by ${command.node}`,
      `  key        ${files.connection}, which only you can read`,
      `  held       a call waits ${command.holdSeconds} s for a person`,
      `  reported   how a tool ended, by ${client.afterEvents.join(" and ")}`,
      `  observed   what a person asks, by ${PROMPT_EVENT}, and what tools answer`,
      ...trialLines(trial),
      "",
      ...client.gaps,
      `\`agentctl attach ${client.name} --managed\` writes a configuration that cannot be skipped so.`,
    ],
    json: {
      settings: path,
      url: command.endpoint,
      hook: files.hook,
      connection: files.connection,
      node: command.node,
      hold_seconds: command.holdSeconds,
      trial: trialJson(trial),
    },
    isRefused: trial.kind === "failed",
  };
}

async function attachMachine({ client, input, connection, ...command }: Request): Promise<CommandReport> {
  if (input.option("settings") !== undefined) throw new CommandError("--settings: not with --managed; use --root");
  const root = resolve(input.option("root") ?? "/");
  const inHome = join("~", USER_FOLDER, connectionName(connection));
  const line = { ...command, client: client.name, hook: MANAGED_HOOK, connection: inHome };
  const files = await writeManaged(client, hooksOf(client, line), root);
  const isPlaced = root === "/";
  return {
    lines: [
      `${isPlaced ? "attached" : "written"}: ${files.settings} has every tool call of ${client.title} on the machine decided`,
      `  hook       ${files.hook}, run by ${command.node}`,
      `  owner      ${isPlaced && process.getuid?.() === 0 ? "root" : "not root yet: copy both files, owned by root"}; nobody else may be able to change them or Node.js`,
      `  key        each user's own, in ${inHome}: \`agentctl attach ${client.name}\` with the same address and agent writes it;`,
      "             the tools of a user without it are blocked",
      "  others     hooks of users, projects and plugins do not run any more",
    ],
    json: {
      settings: files.settings,
      url: command.endpoint,
      hook: files.hook,
      connection: inHome,
      node: command.node,
      hold_seconds: command.holdSeconds,
    },
  };
}

/** Returns the hooks of a client: before a tool, after it, where they tell how it ended and what it answered, and before a prompt. */
function hooksOf(client: CodingAgent, line: HookCommand): HooksByEvent {
  const before = {
    type: "command",
    command: commandLineFrom({ ...line, mode: "tracked" }),
    timeout: line.holdSeconds + MARGIN_SECONDS,
    ...client.hook,
  };
  const telling = (mode: "after" | "prompt") => ({
    type: "command",
    command: commandLineFrom({ ...line, holdSeconds: 0, mode }),
    timeout: TELLING_SECONDS,
  });
  const after = Object.fromEntries(client.afterEvents.map((event) => [event, telling("after")]));
  return { [EVENT]: before, ...after, [PROMPT_EVENT]: telling("prompt") };
}

/** Reads the certificates that `NODE_EXTRA_CA_CERTS` names, which the hook trusts too: it runs without the variable. */
async function authoritiesFrom(path: string | undefined): Promise<string | undefined> {
  if (path === undefined || path === "") return undefined;
  return readFile(path, "utf8").catch((error: Error) => {
    throw new CommandError(`NODE_EXTRA_CA_CERTS: \`${path}\` cannot be read: ${error.message}`);
  });
}

function trialLines(trial: Trial): string[] {
  if (trial.kind === "failed") return [`  tried      ${TRIAL_CALL}: FAILED, so every tool is blocked. ${trial.reason}`];
  const { decision, agentId, decisionId, reason } = trial;
  return [`  tried      ${TRIAL_CALL} as ${agentId}: ${decision} (${decisionId}), since ${reason}`];
}

function trialJson(trial: Trial): object {
  if (trial.kind === "failed") return { failed: trial.reason };
  const { decision, agentId: agent_id, decisionId: decision_id, reason } = trial;
  return { decision, agent_id, decision_id, reason };
}

function holdFrom(text = String(DEFAULT_HOLD_SECONDS)): number {
  if (/^\d{1,4}$/.test(text) && Number(text) <= MAX_HOLD_SECONDS) return Number(text);
  throw new CommandError(`--hold ${text}: give a whole number of seconds from 0 to ${MAX_HOLD_SECONDS}`);
}
