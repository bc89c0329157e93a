import { readFile } from "node:fs/promises";
import { isJsonRecord, type JsonRecord, required } from "../verify/json.ts";
import { budgetText } from "./budget-text.ts";
import { parseJson } from "./bundle.ts";
import { type Command, CommandError, type CommandInput, type CommandReport } from "./command.ts";
import { serviceFrom } from "./service.ts";

const FILE_FORMAT = [
  "",
  "The file has the fields of the request in JSON. Nothing is written: no entries of the log, counters or trust.",
  "Drafts need a key of the role admin or operator. Exit code 1 says that something would not be allowed.",
];

/** `agentctl preflight` decides the steps of a plan as a dry run. */
export const preflight: Command = {
  name: "preflight",
  arguments: "<plan.json>",
  summary: "decide the steps of a plan without attempting them",
  details: [
    ...FILE_FORMAT,
    'A plan: {"agent_id": "agt_…", "steps": [{"action_type": "pay", "tool": "pay_invoice",',
    '"metadata": {"arguments": {"amount": 750}}}]}. Each step sees what the steps before it would have changed.',
  ],
  options: ["url", "key-file"],
  run: (input) => report(input, "/v1/enforce/preflight", "preflight", preflightLines),
};

/** `agentctl probe` decides one action as a dry run and shows the result of every rule. */
export const probe: Command = {
  name: "probe",
  arguments: "<action.json>",
  summary: "decide one action without attempting it, and show the result of every rule",
  details: [
    ...FILE_FORMAT,
    'An action: {"agent_id": "agt_…", "action_type": "pay", "tool": "pay_invoice",',
    '"metadata": {"arguments": {"amount": 750}}}. The suggested changes were decided again and allowed.',
  ],
  options: ["url", "key-file"],
  run: (input) => report(input, "/v1/enforce/probe", "probe", probeLines),
};

async function report(
  input: CommandInput,
  path: string,
  member: string,
  linesOf: (result: JsonRecord) => readonly string[],
): Promise<CommandReport> {
  const [file = ""] = input.positionals;
  const body = await requestFrom(file);
  const reply = (await serviceFrom(input)(path, { method: "POST", body }))[member];
  const result = required(isJsonRecord(reply) ? reply : undefined, "the service", `\`${member}\``);
  const decided = recordsOf(result.steps ?? [result]);
  const isRefused = decided.some(({ decision }) => decision !== "allow");
  return { lines: linesOf(result), json: result, isRefused };
}

/** Reads a file that holds a JSON object. */
async function requestFrom(file: string): Promise<JsonRecord> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`${file} cannot be read: ${error.code ?? error.message}`);
  });
  const json = parseJson(text);
  if (isJsonRecord(json)) return json;
  throw new CommandError(`${file} is not a JSON object`);
}

function preflightLines(result: JsonRecord): readonly string[] {
  const { allowed, blocked, escalated, seq, at } = result;
  const head = `${allowed} allowed, ${blocked} blocked, ${escalated} escalated; at ${at}, after ${seq} entries`;
  return [head, ...recordsOf(result.steps).flatMap(stepLines)];
}

function stepLines(step: JsonRecord): readonly string[] {
  const { index, decision, trust_before, trust_after } = step;
  const missing = recordsOf(step.arguments).filter(({ required, given }) => required === true && given === false);
  const names = missing.map(({ path }) => `\`${path}\``).join(", ");
  return [
    `${String(index).padStart(4)}  ${decision}  ${byWhom(step)}, trust ${trust_before} to ${trust_after}`,
    ...reasonLines(step),
    ...limitLines(step),
    ...(names === "" ? [] : [`        required and not given: ${names}`]),
  ];
}

function probeLines(result: JsonRecord): readonly string[] {
  const rules = recordsOf(result.trace);
  const covering = rules.filter(({ covers }) => covers === true);
  const others = rules.length - covering.length + Number(result.trace_left_out ?? 0);
  return [
    `${result.decision}  ${byWhom(result)}; at ${result.at}, after ${result.seq} entries`,
    ...reasonLines(result),
    ...limitLines(result),
    ...covering.flatMap(ruleLines),
    ...(others === 0 ? [] : [`  ${others} more rules in force do not cover the action`]),
    ...recordsOf(result.nearest_allow).map(nearestLine),
  ];
}

function byWhom({ decision_path, policy_name }: JsonRecord): string {
  return typeof policy_name === "string" ? `by ${JSON.stringify(policy_name)}` : `by ${words(decision_path)}`;
}

const words = (text: unknown): string => String(text).replaceAll("_", " ");

const reasonLines = ({ reasons }: JsonRecord): readonly string[] =>
  recordsOf(reasons).map(
    ({ code, message, would_pass }) =>
      `        ${code}: ${message}${typeof would_pass === "string" ? `; ${would_pass}` : ""}`,
  );

const limitLines = ({ collective_limits }: JsonRecord): readonly string[] =>
  recordsOf(collective_limits).map((limit) => `        ${budgetText(limit) ?? countText(limit)}`);

function countText({ scope, group, count, limit, window, remaining, resets_at }: JsonRecord): string {
  const fits = resets_at == null ? "" : `; one more fits from ${resets_at}`;
  return `${count} of ${limit} in ${window} s for ${scope} ${group}, ${remaining} remain${fits}`;
}

function ruleLines({ mandate_name, rule, decision, mode, fires, conditions }: JsonRecord): readonly string[] {
  const effect = mode === "observe" ? `would ${decision}` : decision;
  const head = `  ${fires === true ? "fires" : "     "}  ${effect}  ${JSON.stringify(mandate_name)} ${rule}`;
  return [
    head,
    ...recordsOf(conditions).flatMap((each) => [conditionLine(each), ...valueLines(each), ...listLines(each)]),
  ];
}

/** Tells where each value of an argument comes from. Values themselves are not shown. */
const valueLines = ({ values }: JsonRecord): readonly string[] =>
  recordsOf(values).map(({ sources, tools, fires }, index) => {
    const where = textsOf(sources).join(", ");
    const named = textsOf(tools).join(", ");
    const mark = fires === true ? "+" : "-";
    return `             ${mark} value ${index + 1} stands ${where === "" ? "nowhere" : `in ${where}`}${named === "" ? "" : `, seen in ${named}`}`;
  });

const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];

/** Names the lists that a condition looked into, and what matched. */
const listLines = ({ lists }: JsonRecord): readonly string[] =>
  recordsOf(lists).map(({ name, digest, matched }) => {
    const what = digest == null ? "does not exist" : `with digest ${digest}`;
    const found =
      Array.isArray(matched) && matched.length > 0
        ? `, matched ${matched.map((each) => JSON.stringify(each)).join(", ")}`
        : "";
    return `             list ${JSON.stringify(name)} ${what}${found}`;
  });

function conditionLine({ path, operator, expected, seen, value, holds }: JsonRecord): string {
  const comparison = [path, words(operator), ...(expected == null ? [] : [JSON.stringify(expected)])].join(" ");
  const found = seen === "present" ? (value == null ? "" : `, is ${JSON.stringify(value)}`) : `, ${words(seen)}`;
  return `           ${holds === true ? "+" : "-"} ${comparison}${found}`;
}

function nearestLine({ argument, from, to }: JsonRecord): string {
  return `  would allow: ${argument} ${JSON.stringify(to)}${from == null ? "" : ` instead of ${JSON.stringify(from)}`}`;
}

/** Returns the objects of a list. */
export function recordsOf(value: unknown): readonly JsonRecord[] {
  return Array.isArray(value) ? value.filter(isJsonRecord) : [];
}
