import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { CommandError } from "../command.ts";
import type { CodingAgent } from "./coding-agents.ts";
import { HOOK_NAME, readHook, replaceFile } from "./installation.ts";
import type { HooksByEvent } from "./settings-file.ts";

/** Folder of the managed hook. Root must own it: whoever can write to it can replace the hook. */
export const MANAGED_FOLDER = "/usr/local/lib/agent-control-plane";
/** Path of the managed hook. */
export const MANAGED_HOOK = join(MANAGED_FOLDER, HOOK_NAME);
const MARK = "# Written by `agentctl attach codex --managed`.";

/** Files of a managed configuration, by their path below the root folder. */
export interface ManagedFiles {
  readonly settings: string;
  readonly hook: string;
}

/**
 * Writes the managed configuration of a client and its hook below a root folder, readable by everyone and writable by the owner
 * alone. Throws `CommandError`, and writes nothing, if the client's requirements file has other content.
 */
export async function writeManaged(client: CodingAgent, hooks: HooksByEvent, root: string): Promise<ManagedFiles> {
  const files = { settings: join(root, client.managed.path), hook: join(root, MANAGED_HOOK) };
  const text = client.managed.form === "toml" ? requirementsFrom(hooks) : managedSettingsFrom(hooks);
  if (client.managed.form === "toml") await assertOwn(files.settings, text);
  await replaceFile(files.hook, await readHook(), 0o644, 0o755);
  await replaceFile(files.settings, text, 0o644, 0o755);
  return files;
}

async function assertOwn(path: string, text: string): Promise<void> {
  const before = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return MARK;
    throw new CommandError(`\`${path}\` cannot be read: ${error.message}`);
  });
  if (before.startsWith(MARK) || before.trim() === "") return;
  throw new CommandError(
    `\`${path}\` has other requirements, and nothing was changed. Add to it:\n\n${text}\nand install the hook as \`${MANAGED_HOOK}\`: \`agentctl attach codex --managed --root FOLDER\` writes both below a folder to copy from`,
  );
}

/**
 * Requirements of Codex. Other hooks are off, because one of them could change the input of a call after it was decided, and
 * because a project's own copy of the hook would have each call decided twice.
 */
function requirementsFrom(hooks: HooksByEvent): string {
  const groups = Object.entries(hooks).flatMap(([event, { command, timeout }]) => [
    `[[hooks.${event}]]`,
    "",
    `[[hooks.${event}.hooks]]`,
    'type = "command"',
    `command = ${JSON.stringify(command)}`,
    `timeout = ${timeout}`,
    "",
  ]);
  return [
    MARK,
    "allow_managed_hooks_only = true",
    "",
    "[features]",
    "hooks = true",
    "",
    "[hooks]",
    `managed_dir = ${JSON.stringify(MANAGED_FOLDER)}`,
    "",
    ...groups,
  ].join("\n");
}

function managedSettingsFrom(given: HooksByEvent): string {
  const hooks = Object.fromEntries(Object.entries(given).map(([event, hook]) => [event, [{ hooks: [hook] }]]));
  const settings = { allowManagedHooksOnly: true, hooks };
  return `${JSON.stringify(settings, undefined, 2)}\n`;
}
