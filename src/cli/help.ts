import { distance } from "fastest-levenshtein";
import { type Command, CommandError, type CommandOption, OPTIONS, type OptionName } from "./command.ts";

/** Other words for the first word of commands. */
const SYNONYMS: Readonly<Record<string, string>> = {
  mandates: "mandate",
  servers: "mcp",
  agent: "agents",
  key: "keys",
  tool: "tools",
  escalation: "escalations",
  decision: "decisions",
  limit: "limits",
  workspace: "workspaces",
  webhook: "webhooks",
};
/** Typing errors in a command up to which another is proposed. */
const MAX_TYPOS = 3;

const EXIT_CODES: Readonly<Record<NonNullable<Command["exit"]>, readonly string[]>> = {
  verdict: [
    "Exit codes:",
    "  0  verified, or done",
    "  1  refused: the input does not verify, or would not be allowed",
    "  2  wrong usage, or something cannot be read or written",
  ],
  failure: [
    "Exit codes:",
    "  0  done",
    "  1  failed: the service refused the call, failed, or cannot be reached",
    "  2  wrong usage",
  ],
};

/** Returns the words before the first option, with the first one as commands have it. */
function wordsOf(argv: readonly string[]): readonly string[] {
  const end = argv.findIndex((word) => word.startsWith("-"));
  const [first, ...rest] = argv.slice(0, end < 0 ? argv.length : end);
  if (first === undefined) return [];
  return [Object.hasOwn(SYNONYMS, first) ? (SYNONYMS[first] ?? first) : first, ...rest];
}

/** Returns the command with the longest match of the first words, or all commands that begin with a single word. */
export function commandsNamed(commands: readonly Command[], argv: readonly string[]): readonly Command[] {
  const words = wordsOf(argv);
  const named = commands.filter(({ name }) => name.split(" ").every((word, index) => word === words[index]));
  const [longest] = named.toSorted((a, b) => b.name.length - a.name.length);
  if (longest !== undefined) return [longest];
  if (words.length > 1) return [];
  const [first = ""] = words;
  const family = commands.filter(({ name }) => name.split(" ")[0] === first);
  return family.length > 0 ? family : commands.filter(({ name }) => name.startsWith(first));
}

/** Tells that there is no such command, with the nearest one, or with all of them. */
export function unknownCommand(commands: readonly Command[], argv: readonly string[]): string {
  const words = wordsOf(argv);
  const nearest = nearestOf(commands, words);
  if (nearest !== undefined) return `agentctl: no such command; did you mean \`agentctl ${nearest}\`?\n`;
  const family = commands.filter(({ name }) => name.split(" ")[0] === words[0]);
  return `agentctl: no such command\n\n${overviewOf(family.length > 0 ? family : commands)}`;
}

function nearestOf(commands: readonly Command[], words: readonly string[]): string | undefined {
  const found = commands
    .map(({ name }) => ({ name, typos: distance(name, words.slice(0, name.split(" ").length).join(" ")) }))
    .filter(({ name, typos }) => typos <= Math.min(MAX_TYPOS, Math.floor(name.length / 3)))
    .toSorted((a, b) => a.typos - b.typos);
  return found[0]?.name;
}

/** Returns the help that lists several commands: with their summaries if they are of one family. */
export function overviewOf(commands: readonly Command[]): string {
  const families = new Map<string, Command[]>();
  for (const command of commands) {
    const [word = ""] = command.name.split(" ");
    families.set(word, [...(families.get(word) ?? []), command]);
  }
  const isOne = families.size === 1;
  const rows = isOne
    ? commands.map((command) => [usageOf(command), command.summary] as const)
    : [...families].map(([word, members]) => [word, familyText(members)] as const);
  return [
    "agentctl: runs an Agent Control Plane, and verifies and explains its log",
    "",
    ...columns(rows),
    "",
    ...(isOne ? [] : ["`agentctl help <word>` lists the commands of a word."]),
    "`agentctl help <command>` shows the options of a command.",
    "",
    ...EXIT_CODES[isOne ? (commands[0]?.exit ?? "verdict") : "verdict"],
    "",
  ].join("\n");
}

function familyText(members: readonly Command[]): string {
  const [only] = members;
  if (members.length === 1 && only !== undefined && !only.name.includes(" ")) return only.summary;
  const verbs = members.map(({ name }) => name.split(" ")[1] ?? "");
  return [...new Set(verbs)].join(", ");
}

/** Returns the help of one command. */
export function helpOf(command: Command): string {
  return [
    usageOf(command),
    "",
    `${command.summary}.`,
    ...command.details,
    "",
    "Options:",
    ...columns([...command.options, "json" as const, "help" as const].map(optionRow)),
    "",
    ...EXIT_CODES[command.exit ?? "verdict"],
    "",
  ].join("\n");
}

const usageOf = ({ name, arguments: rest }: Command): string => `agentctl ${name}${rest === "" ? "" : ` ${rest}`}`;

function optionRow(name: OptionName): readonly [string, string] {
  const { value, help }: CommandOption = OPTIONS[name];
  return [`--${name}${value === undefined ? "" : ` <${value}>`}`, help];
}

/** Pads the first cells of rows to the same width. */
function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([first]) => first.length));
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`);
}

/** Creates `agentctl help`. */
export function createHelp(commands: () => readonly Command[]): Command {
  return {
    name: "help",
    arguments: "[word] [word] [word]",
    summary: "list the commands, or show one",
    details: [],
    options: [],
    exit: "failure",
    async run({ positionals }) {
      const all = commands();
      const found = positionals.length === 0 ? all : commandsNamed(all, positionals);
      if (found.length === 0) throw new CommandError(unknownCommand(all, positionals).replace(/^agentctl: |\n$/g, ""));
      const [only] = found;
      const text = found.length === 1 && only !== undefined ? helpOf(only) : overviewOf(found);
      const json = {
        commands: found.map(({ name, arguments: rest, summary }) => ({ name, arguments: rest, summary })),
      };
      return { lines: text.trimEnd().split("\n"), json };
    },
  };
}
