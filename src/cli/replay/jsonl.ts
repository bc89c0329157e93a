import { isJsonRecord, type JsonRecord, type JsonValue } from "../../verify/json.ts";
import { CommandError } from "../command.ts";
import {
  type Episode,
  MAX_ID_LENGTH,
  type RecordedStep,
  type Recording,
  STEP_ROLES,
  type StepLabel,
  type StepRole,
} from "./episode.ts";
import { filesAt, linesOf, parseRecorded } from "./read-recording.ts";

const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** Reads files that hold one episode a line. Throws `CommandError` that names file, line and member. */
export async function* episodesOfLines(paths: readonly string[]): AsyncGenerator<Recording> {
  const ids = new Set<string>();
  for (const file of await filesAt(paths, ".jsonl")) {
    for await (const { number, text } of linesOf(file)) {
      const place = `${file}:${number}`;
      const episode = episodeFrom(parseRecorded(text, place), place);
      if (ids.has(episode.id))
        throw new CommandError(`${place}: \`id\` is that of an earlier episode; give each its own`);
      ids.add(episode.id);
      yield { episode, file };
    }
  }
}

/** Checks an episode. Throws `CommandError` that names the place and the member. */
export function episodeFrom(value: JsonValue, place: string): Episode {
  const check = new MemberCheck(place);
  const record = check.record(value, "");
  check.members(record, "", ["id", "prompt", "contract", "steps", "labels"]);
  const id = check.text(record.id, "id");
  if (id === "" || id.length > MAX_ID_LENGTH) throw check.fault("id", `must have 1 to ${MAX_ID_LENGTH} characters`);
  const steps = check.list(record.steps, "steps").map((step, at) => stepFrom(check, step, `steps[${at}]`));
  const { prompt, contract, labels } = record;
  return {
    id,
    ...(prompt == null ? {} : { prompt: check.text(prompt, "prompt") }),
    ...(contract == null ? {} : { contract: check.record(contract, "contract") }),
    steps,
    ...(labels == null
      ? {}
      : { labels: check.list(labels, "labels").map((label, at) => labelFrom(check, label, `labels[${at}]`, steps)) }),
  };
}

function stepFrom(check: MemberCheck, value: JsonValue, path: string): RecordedStep {
  const record = check.record(value, path);
  const at = record.at == null ? {} : { at: check.time(record.at, `${path}.at`) };
  if (record.prompt !== undefined) {
    check.members(record, path, ["prompt", "at"]);
    return { prompt: check.text(record.prompt, `${path}.prompt`), ...at };
  }
  check.members(record, path, ["tool", "arguments", "action_type", "content", "result", "is_error", "parallel", "at"]);
  const { action_type, content, result, is_error, parallel } = record;
  const tool = check.text(record.tool, `${path}.tool`);
  if (tool.trim() === "") throw check.fault(`${path}.tool`, "must name a tool");
  return {
    tool,
    arguments: record.arguments == null ? {} : check.record(record.arguments, `${path}.arguments`),
    ...(action_type == null ? {} : { action_type: check.text(action_type, `${path}.action_type`) }),
    ...(content == null ? {} : { content: check.text(content, `${path}.content`) }),
    ...(result === undefined ? {} : { result }),
    ...(is_error == null ? {} : { is_error: check.flag(is_error, `${path}.is_error`) }),
    ...(parallel == null ? {} : { parallel: check.flag(parallel, `${path}.parallel`) }),
    ...at,
  };
}

function labelFrom(check: MemberCheck, value: JsonValue, path: string, steps: readonly RecordedStep[]): StepLabel {
  const record = check.record(value, path);
  check.members(record, path, ["step", "role"]);
  const { step, role } = record;
  const named = typeof step === "number" ? steps[step] : undefined;
  if (typeof step !== "number" || named === undefined || !("tool" in named))
    throw check.fault(`${path}.step`, "must be the index of a call in `steps`, from 0");
  if (!STEP_ROLES.includes(role as StepRole)) throw check.fault(`${path}.role`, "must be `effective` or `stage`");
  return { step, role: role as StepRole };
}

/** Checks members of one JSON text, whose place its errors name. */
export class MemberCheck {
  readonly #place: string;

  constructor(place: string) {
    this.#place = place;
  }

  /** Creates the error for a member; the path of the text itself is empty. */
  fault(path: string, message: string): CommandError {
    return new CommandError(`${this.#place}: ${path === "" ? "it" : `\`${path}\``} ${message}`);
  }

  record(value: JsonValue | undefined, path: string): JsonRecord {
    if (isJsonRecord(value)) return value;
    throw this.fault(path, "must be an object");
  }

  list(value: JsonValue | undefined, path: string): readonly JsonValue[] {
    if (Array.isArray(value)) return value;
    throw this.fault(path, "must be a list");
  }

  text(value: JsonValue | undefined, path: string): string {
    if (typeof value !== "string") throw this.fault(path, "must be a text");
    // Such a text has no UTF-8.
    if (!value.isWellFormed()) throw this.fault(path, "has half of a surrogate pair");
    return value;
  }

  flag(value: JsonValue | undefined, path: string): boolean {
    if (typeof value === "boolean") return value;
    throw this.fault(path, "must be true or false");
  }

  time(value: JsonValue | undefined, path: string): string {
    if (typeof value === "string" && RFC3339.test(value) && !Number.isNaN(Date.parse(value))) return value;
    throw this.fault(path, "must be a time such as 2026-01-31T00:00:00Z");
  }

  /** Throws for a member that is none of those named. */
  members(record: JsonRecord, path: string, names: readonly string[]): void {
    const other = Object.keys(record).find((name) => !names.includes(name));
    if (other === undefined) return;
    const known = names.map((name) => `\`${name}\``).join(", ");
    throw this.fault(path === "" ? other : `${path}.${other}`, `is no member; these are: ${known}`);
  }
}
