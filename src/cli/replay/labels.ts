import { parse } from "yaml";
import { fold } from "../../text/fold.ts";
import { isJsonRecord, type JsonRecord, type JsonValue } from "../../verify/json.ts";
import { CommandError } from "../command.ts";
import {
  type BenchmarkRun,
  isCall,
  type RecordedCall,
  type RecordedStep,
  STEP_ROLES,
  type StepLabel,
  type StepRole,
} from "./episode.ts";
import { MemberCheck } from "./jsonl.ts";
import { textOf } from "./read-recording.ts";

/** Word between the names of arguments of which one has to meet a condition. */
const OR = " or ";
/** Maximum aliases of a YAML file, against files that grow when they are read. */
const MAX_ALIASES = 100;

/** A condition on the value of an argument: it is one of the values, or contains one. */
interface Condition {
  /** Names of arguments of which one has to meet it. */
  readonly names: readonly string[];
  readonly operator: "equals" | "contains";
  /** Folded. */
  readonly values: readonly string[];
}

/** A label of the calls in runs of one task of an attacker. */
interface Matcher {
  readonly suite: string;
  readonly task: string;
  readonly role: StepRole;
  /** Folded. */
  readonly tool: string;
  readonly conditions: readonly Condition[];
}

/** Labels of calls by the task of the attacker in whose runs they stand. */
export class CallLabels {
  readonly #matchers: readonly Matcher[];

  private constructor(matchers: readonly Matcher[]) {
    this.#matchers = matchers;
  }

  /** Reads a file of labels, YAML or JSON. Throws `CommandError` that names file and member. */
  static async fromFile(file: string): Promise<CallLabels> {
    const check = new MemberCheck(file);
    const record = check.record(yamlFrom(await textOf(file), file), "");
    check.members(record, "", ["labels"]);
    return new CallLabels(
      check.list(record.labels, "labels").map((label, index) => matcherFrom(check, label, `labels[${index}]`)),
    );
  }

  /** Lists the labels of the calls of a run; none for one without attack. */
  labelsOf(run: BenchmarkRun, steps: readonly RecordedStep[]): readonly StepLabel[] {
    const matchers = this.#matchers.filter(({ suite, task }) => suite === run.suite && task === run.injectionTask);
    return steps.flatMap((call, step) => {
      const roles = isCall(call) ? matchers.filter((each) => matches(each, call)).map(({ role }) => role) : [];
      const role = STEP_ROLES.find((each) => roles.includes(each));
      return role === undefined ? [] : [{ step, role }];
    });
  }
}

function yamlFrom(text: string, file: string): JsonValue {
  try {
    return parse(text, { maxAliasCount: MAX_ALIASES, uniqueKeys: true }) as JsonValue;
  } catch (error) {
    const [message = ""] = (error as Error).message.split("\n");
    throw new CommandError(`${file}: ${message}`);
  }
}

function matcherFrom(check: MemberCheck, value: JsonValue, path: string): Matcher {
  const record = check.record(value, path);
  check.members(record, path, ["suite", "task", "role", "tool", "arguments"]);
  const role = STEP_ROLES.find((each) => each === record.role);
  if (role === undefined) throw check.fault(`${path}.role`, "must be `effective` or `stage`");
  const args = record.arguments == null ? {} : check.record(record.arguments, `${path}.arguments`);
  return {
    suite: check.text(record.suite, `${path}.suite`),
    task: check.text(record.task, `${path}.task`),
    role,
    tool: fold(check.text(record.tool, `${path}.tool`)),
    conditions: Object.entries(args).map(([name, each]) =>
      conditionFrom(check, name, each, `${path}.arguments.${name}`),
    ),
  };
}

function conditionFrom(check: MemberCheck, name: string, value: JsonValue, path: string): Condition {
  const record = check.record(value, path);
  check.members(record, path, ["equals", "contains"]);
  const { equals, contains } = record;
  if ((equals === undefined) === (contains === undefined))
    throw check.fault(path, "must have either `equals` or `contains`");
  const operator = equals === undefined ? "contains" : "equals";
  const given = equals ?? contains;
  const values = (Array.isArray(given) ? given : [given]).map((each) => fold(scalarText(each) ?? ""));
  // Every text contains the empty one, which would label every call.
  if (values.length === 0 || values.includes(""))
    throw check.fault(`${path}.${operator}`, "must be a text or number that is not empty, or a list of them");
  return { names: name.split(OR), operator, values };
}

function matches({ tool, conditions }: Matcher, call: RecordedCall): boolean {
  return fold(call.tool) === tool && conditions.every((condition) => meets(call.arguments, condition));
}

function meets(args: JsonRecord, { names, operator, values }: Condition): boolean {
  const given = names.flatMap((name) => (Object.hasOwn(args, name) ? textsOf(args[name]) : []));
  return given.some((text) => values.some((value) => (operator === "equals" ? text === value : text.includes(value))));
}

/** Lists the texts of an argument, folded: its own, those of its items, and the JSON of an object. */
function textsOf(value: JsonValue | undefined): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item) => (Array.isArray(item) ? [] : textsOf(item)));
  if (isJsonRecord(value)) return [fold(JSON.stringify(value))];
  const text = scalarText(value);
  return text === undefined ? [] : [fold(text)];
}

function scalarText(value: JsonValue | undefined): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}
