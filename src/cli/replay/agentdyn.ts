import { isJsonRecord, type JsonRecord, type JsonValue } from "../../verify/json.ts";
import { CommandError } from "../command.ts";
import { type BenchmarkRun, NAMELESS_TOOL, type RecordedCall, type Recording } from "./episode.ts";
import { MemberCheck } from "./jsonl.ts";
import { jsonFromPython, PythonLiteralError } from "./python-literal.ts";
import { filesAt, parseRecorded, textOf } from "./read-recording.ts";

/**
 * Reads the runs of AgentDyn, and of AgentDojo, whose files have the same members: one JSON file a run, with the messages between user,
 * model and tools. Throws `CommandError` that names file and member.
 */
export async function* episodesOfRuns(paths: readonly string[]): AsyncGenerator<Recording> {
  const files = new Map<string, string>();
  for (const file of await filesAt(paths, ".json")) {
    const recording = recordingFrom(file, parseRecorded(await textOf(file), file));
    const earlier = files.get(recording.episode.id);
    if (earlier !== undefined) throw new CommandError(`${file}: is the same run as ${earlier}; leave one of them out`);
    files.set(recording.episode.id, file);
    yield recording;
  }
}

function recordingFrom(file: string, value: JsonValue): Recording {
  const check = new MemberCheck(file);
  const record = check.record(value, "");
  const run = runFrom(check, record);
  const { prompts, steps } = stepsFrom(check, check.list(record.messages, "messages"));
  const { suite, pipeline, userTask, injectionTask = "none", attack = "none" } = run;
  return {
    file,
    run,
    episode: {
      id: [pipeline, suite, userTask, attack, injectionTask].join("/"),
      ...(prompts === "" ? {} : { prompt: prompts }),
      steps,
    },
  };
}

function runFrom(check: MemberCheck, record: JsonRecord): BenchmarkRun {
  const optional = (name: string): string | undefined => {
    const value = record[name];
    return value == null || value === "none" ? undefined : check.text(value, name);
  };
  const attack = optional("attack_type");
  return {
    suite: check.text(record.suite_name, "suite_name"),
    pipeline: check.text(record.pipeline_name, "pipeline_name"),
    userTask: check.text(record.user_task_id, "user_task_id"),
    injectionTask: optional("injection_task_id"),
    attack,
    utility: check.flag(record.utility, "utility"),
    // Without attack the files say `true`, which means nothing.
    security: attack === undefined ? undefined : check.flag(record.security, "security"),
  };
}

/** A call whose result is still to come. */
interface OpenCall {
  readonly id: string | undefined;
  readonly at: number;
}

function stepsFrom(
  check: MemberCheck,
  messages: readonly JsonValue[],
): { readonly prompts: string; readonly steps: readonly RecordedCall[] } {
  const prompts: string[] = [];
  const steps: RecordedCall[] = [];
  let open: OpenCall[] = [];
  for (const [index, each] of messages.entries()) {
    const path = `messages[${index}]`;
    const message = check.record(each, path);
    const text = contentText(check, message.content, `${path}.content`);
    if (message.role === "user") prompts.push(text);
    else if (message.role === "assistant") {
      const calls = message.tool_calls == null ? [] : check.list(message.tool_calls, `${path}.tool_calls`);
      open = calls.map((call, at) => {
        const { step, id } = callFrom(check, call, `${path}.tool_calls[${at}]`);
        steps.push(at === 0 ? step : { ...step, parallel: true });
        return { id, at: steps.length - 1 };
      });
    } else if (message.role === "tool") {
      const found = Math.max(
        0,
        open.findIndex(({ id }) => id !== undefined && id === message.tool_call_id),
      );
      const [call] = open.splice(found, 1);
      const step = call === undefined ? undefined : steps[call.at];
      if (call === undefined || step === undefined) throw check.fault(path, "is a result without a call before it");
      steps[call.at] = { ...step, ...resultFrom(text, message.error) };
    } else if (message.role !== "system") throw check.fault(`${path}.role`, "must be system, user, assistant or tool");
  }
  return { prompts: prompts.join("\n\n"), steps };
}

function callFrom(
  check: MemberCheck,
  value: JsonValue,
  path: string,
): { readonly step: RecordedCall; readonly id: string | undefined } {
  const record = check.record(value, path);
  const tool = check.text(record.function, `${path}.function`).trim();
  const args = record.args == null ? {} : check.record(record.args, `${path}.args`);
  const id = record.id == null ? undefined : check.text(record.id, `${path}.id`);
  return { id, step: { tool: tool === "" ? NAMELESS_TOOL : tool, arguments: withLists(args) } };
}

/** Reads arguments that are the text of a Python list as lists, as the benchmark does before it calls the tool. */
function withLists(args: JsonRecord): JsonRecord {
  const read = (value: JsonValue): JsonValue => {
    if (typeof value !== "string" || !/^\s*\[/.test(value)) return value;
    const list = pythonFrom(value);
    return Array.isArray(list) ? list : value;
  };
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, read(value)]));
}

/** Reads what a tool returned: an error, a Python or JSON literal, or text. */
function resultFrom(text: string, error: JsonValue | undefined): Pick<RecordedCall, "result" | "is_error"> {
  if (typeof error === "string" && error !== "")
    return { result: text === "" ? error : `${text}\n${error}`, is_error: true };
  return { result: /^\s*[[{(]/.test(text) ? (pythonFrom(text) ?? text) : text };
}

/** Reads a Python literal; undefined for a text that is none. */
function pythonFrom(text: string): JsonValue | undefined {
  try {
    return jsonFromPython(text);
  } catch (error) {
    if (error instanceof PythonLiteralError) return undefined;
    throw error;
  }
}

/** Returns the text of a message: of its blocks of type `text`, or of its only text. */
function contentText(check: MemberCheck, content: JsonValue | undefined, path: string): string {
  if (content == null) return "";
  if (typeof content === "string") return content.toWellFormed();
  return check
    .list(content, path)
    .flatMap((block) => {
      const text = isJsonRecord(block) ? (block.content ?? block.text) : undefined;
      return typeof text === "string" ? [text.toWellFormed()] : [];
    })
    .join("\n");
}
