import { isJsonRecord, type JsonRecord, required } from "../verify/json.ts";
import { parseJson } from "./bundle.ts";
import { type Command, CommandError, type CommandInput, type CommandReport, type OptionName } from "./command.ts";
import { recordsOf } from "./dry-run.ts";
import { serviceFrom } from "./service.ts";

const SERVICE_OPTIONS: readonly OptionName[] = ["url", "key-file"];
const NAMES =
  "Name an agent or a mandate by its id, or by its name in upper or lower case, and a tool by its name. Nothing is written.";

/** `agentctl mandate ask may` asks whether an agent may do something. */
export const mandateAskMay: Command = {
  name: "mandate ask may",
  arguments: "",
  summary: "tell whether an agent may call a tool, or do something, with the rules that decide",
  details: [
    "",
    "--agent is required, and so is --tool or --action-type. Give the arguments of the call as --arguments '{\"amount\": 750}'.",
    NAMES,
    "Exit code 1 says that the action would not be allowed.",
  ],
  options: [...SERVICE_OPTIONS, "agent", "tool", "action-type", "arguments"],
  run: (input) =>
    ask(input, {
      may: { agent: agentFrom(input), ...callFrom(input), ...given({ arguments: argumentsFrom(input) }) },
    }),
};

/** `agentctl mandate ask who-may` asks which agents may do something. */
export const mandateAskWhoMay: Command = {
  name: "mandate ask who-may",
  arguments: "",
  summary: "tell which active agents may call a tool, or do something, and which rules depend on the call",
  details: ["", "--tool or --action-type is required.", NAMES],
  options: [...SERVICE_OPTIONS, "tool", "action-type"],
  run: (input) => ask(input, { who_may: callFrom(input) }),
};

/** `agentctl mandate ask limits` asks for the limits of an agent. */
export const mandateAskLimits: Command = {
  name: "mandate ask limits",
  arguments: "",
  summary: "tell which velocity limits and sequences apply to an agent, with their counts",
  details: ["", "--agent is required.", NAMES],
  options: [...SERVICE_OPTIONS, "agent"],
  run: (input) => ask(input, { limits: { agent: agentFrom(input) } }),
};

/** `agentctl mandate ask why` asks for the reasons of a decision. */
export const mandateAskWhy: Command = {
  name: "mandate ask why",
  arguments: "<decision>",
  summary: "tell why a decision was taken, from its receipt",
  details: ["", "With --supposed the answer also says whether the decision was another. Nothing is written."],
  options: [...SERVICE_OPTIONS, "supposed"],
  run: (input) =>
    ask(input, { why: { decision_id: input.positionals[0], ...given({ supposed: input.option("supposed") }) } }),
};

/** `agentctl mandate ask changed` asks for the differences between two versions of a mandate. */
export const mandateAskChanged: Command = {
  name: "mandate ask changed",
  arguments: "<mandate>",
  summary: "tell what changed between two versions of a mandate, rule by rule",
  details: ["", "Give both --from and --to, or neither.", NAMES],
  options: [...SERVICE_OPTIONS, "from", "to"],
  run: (input) => {
    const versions = given({ from_version: numberFrom(input, "from"), to_version: numberFrom(input, "to") });
    return ask(input, { changed: { mandate: input.positionals[0], ...versions } });
  },
};

/** `agentctl mandate ask never-fire` asks which rules did not fire. */
export const mandateAskNeverFire: Command = {
  name: "mandate ask never-fire",
  arguments: "",
  summary: "tell which rules in force did not fire in any decision of the last days",
  details: ["", "Nothing is written."],
  options: [...SERVICE_OPTIONS, "days"],
  run: (input) => ask(input, { never_fire: given({ days: numberFrom(input, "days") }) }),
};

/** `agentctl mandate ask shadowed` asks which rules never decide. */
export const mandateAskShadowed: Command = {
  name: "mandate ask shadowed",
  arguments: "",
  summary: "tell which rules are proved never to decide, because others always do",
  details: ["", "Nothing is written."],
  options: SERVICE_OPTIONS,
  run: (input) => ask(input, { shadowed: {} }),
};

/** `agentctl mandate ask` answers a question in the user's own words. */
export const mandateAsk: Command = {
  name: "mandate ask",
  arguments: "<question>",
  summary: "answer a question in your own words, as the service's model understands it",
  details: [
    "",
    "The model behind ACP_GUARD_URL of the service turns the question into one of the commands `mandate ask may`, `who-may`,",
    "`limits`, `why`, `changed`, `never-fire` and `shadowed`, which the output shows. The answer is computed as for that command.",
    "The model gets the question and names of agents, tools and mandates. Exit code 1 says that the action in question would",
    "not be allowed.",
  ],
  options: SERVICE_OPTIONS,
  run: (input) => ask(input, { question: input.positionals[0] }),
};

async function ask(input: CommandInput, body: Readonly<Record<string, unknown>>): Promise<CommandReport> {
  const reply = (await serviceFrom(input)("/v1/enforce/ask", { method: "POST", body })).answer;
  const answer = required(isJsonRecord(reply) ? reply : undefined, "the service", "`answer`");
  const understood = body.question === undefined ? [] : [`understood as ${JSON.stringify(setMembers(answer.asked))}`];
  return {
    lines: [...understood, String(answer.text), ...recordsOf(answer.evidence).map(evidenceLine)],
    json: answer,
    isRefused: answer.holds === false,
  };
}

/** Returns the members of an object that have a value, also in objects below it. */
function setMembers(value: unknown): unknown {
  if (!isJsonRecord(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([name, member]) => [name, setMembers(member)]));
}

/** Returns the members that are not undefined. */
const given = (members: object): object =>
  Object.fromEntries(Object.entries(members).filter(([, member]) => member !== undefined));

const callFrom = (input: CommandInput): object =>
  given({ tool: input.option("tool"), action_type: input.option("action-type") });

function agentFrom(input: CommandInput): string {
  const agent = input.option("agent");
  if (agent === undefined) throw new CommandError("--agent is missing: give the id or the name of an agent");
  return agent;
}

function argumentsFrom(input: CommandInput): JsonRecord | undefined {
  const text = input.option("arguments");
  if (text === undefined) return undefined;
  const json = parseJson(text);
  if (isJsonRecord(json)) return json;
  throw new CommandError("--arguments must be a JSON object");
}

function numberFrom(input: CommandInput, name: OptionName): number | undefined {
  const text = input.option(name);
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new CommandError(`--${name} must be a whole number`);
}

function evidenceLine({ mandate_name, version, rule, decision_id, text }: JsonRecord): string {
  const mandate = typeof mandate_name === "string" ? [JSON.stringify(mandate_name)] : [];
  const numbered = typeof version === "number" ? [`v${version}`] : [];
  const place = [decision_id, ...mandate, ...numbered, rule].filter((part) => typeof part === "string");
  return `  ${place.length === 0 ? "" : `${place.join(" ")}: `}${text}`;
}
