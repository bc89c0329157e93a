import { readFile, stat } from "node:fs/promises";
import { isJsonRecord, type JsonRecord } from "../../verify/json.ts";
import { CommandError } from "../command.ts";
import { isOwnHook } from "./command-line.ts";
import { replaceFile } from "./installation.ts";

/** Event before a tool runs, in both clients. */
export const EVENT = "PreToolUse";
/** Event before a prompt reaches the model, in both clients. */
export const PROMPT_EVENT = "UserPromptSubmit";
const DEFAULT_MODE = 0o644;

/** Hooks by the event that they are for. */
export type HooksByEvent = Readonly<Record<string, JsonRecord>>;

/**
 * Adds hooks to a JSON settings file in place of those of earlier runs; everything else stays. Throws `CommandError`, and changes
 * nothing, for a file that it does not understand.
 */
export async function putHooks(path: string, hooks: HooksByEvent, endpoint: string): Promise<void> {
  const before = await settingsAt(path);
  const settings = Object.entries(hooks).reduce(
    (settings, [event, hook]) => withHook(settings, event, hook, endpoint, path),
    before,
  );
  const mode = await stat(path).then(
    (status) => status.mode & 0o777,
    () => DEFAULT_MODE,
  );
  await replaceFile(path, `${JSON.stringify(settings, undefined, 2)}\n`, mode);
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

function withHook(settings: JsonRecord, event: string, hook: JsonRecord, endpoint: string, path: string): JsonRecord {
  const hooks = settings.hooks ?? {};
  const groups = isJsonRecord(hooks) ? (hooks[event] ?? []) : undefined;
  if (!isJsonRecord(hooks) || !Array.isArray(groups)) {
    throw new CommandError(`\`${path}\` has \`hooks\` that are not an object of lists; nothing was changed`);
  }
  const others = groups.flatMap((group) => {
    if (!isJsonRecord(group) || !Array.isArray(group.hooks)) return [group];
    const left = group.hooks.filter((each) => !isOwnHook(each, endpoint));
    return left.length === 0 && group.hooks.length > 0 ? [] : [{ ...group, hooks: left }];
  });
  return { ...settings, hooks: { ...hooks, [event]: [...others, { hooks: [hook] }] } };
}
