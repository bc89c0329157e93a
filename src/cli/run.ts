import { parseArgs } from "node:util";
import { VerificationError } from "../verify/verification-error.ts";
import { attachClaudeCode, attachCodex } from "./attach.ts";
import { certificateVerify } from "./certificate-verify.ts";
import { printable } from "./columns.ts";
import {
  type Command,
  CommandError,
  type CommandInput,
  type CommandIo,
  type CommandOption,
  OPTIONS,
  type OptionName,
} from "./command.ts";
import { preflight, probe } from "./dry-run.ts";
import { halt } from "./halt.ts";
import {
  mandateAsk,
  mandateAskChanged,
  mandateAskLimits,
  mandateAskMay,
  mandateAskNeverFire,
  mandateAskShadowed,
  mandateAskWhoMay,
  mandateAskWhy,
} from "./mandate-ask.ts";
import { mandateBacktest } from "./mandate-backtest.ts";
import { mandateApply, mandateDiff, mandateExport, mandateValidate } from "./mandate-commands.ts";
import { mandateTest } from "./mandate-test.ts";
import { mcpAccept, mcpAdd, mcpDefinitions, mcpList, mcpRemove, mcpTools } from "./mcp-commands.ts";
import { mcpUpdate } from "./mcp-update.ts";
import { redactScan } from "./redact-scan.ts";
import { signingKeyRetire } from "./signing-key-retire.ts";
import { vaultExplain } from "./vault-explain.ts";
import { vaultExport, vaultProve } from "./vault-export.ts";
import { vaultVerify } from "./vault-verify.ts";

/** Every command of `agentctl`, in the order of its help. */
export const COMMANDS: readonly Command[] = [
  vaultVerify,
  vaultExport,
  vaultProve,
  vaultExplain,
  certificateVerify,
  preflight,
  probe,
  mandateAskMay,
  mandateAskWhoMay,
  mandateAskLimits,
  mandateAskWhy,
  mandateAskChanged,
  mandateAskNeverFire,
  mandateAskShadowed,
  mandateAsk,
  mandateBacktest,
  mandateValidate,
  mandateDiff,
  mandateApply,
  mandateExport,
  mandateTest,
  mcpAdd,
  mcpUpdate,
  mcpList,
  mcpTools,
  mcpDefinitions,
  mcpAccept,
  mcpRemove,
  attachClaudeCode,
  attachCodex,
  halt,
  signingKeyRetire,
  redactScan,
];

/** The exit codes of `agentctl`. */
export const EXIT = { verified: 0, refused: 1, unusable: 2 } as const;

const EXIT_CODES = [
  "Exit codes:",
  "  0  verified, or done",
  "  1  refused: the input does not verify, or would not be allowed",
  "  2  wrong usage, or something cannot be read or written",
];

/** Runs `agentctl` with its arguments and returns the exit code. Rejects only for an internal fault. */
export async function runAgentctl(argv: readonly string[], io: CommandIo): Promise<number> {
  const found = findCommands(argv);
  const [command] = found;
  const [own] = programApart(command, argv);
  const wantsHelp = own.includes("--help");
  if (command === undefined || argv.length === 0) {
    io.note(`agentctl: no such command\n\n${overviewOf(COMMANDS)}`);
    return EXIT.unusable;
  }
  if (wantsHelp || found.length > 1) {
    await io.write(found.length > 1 ? overviewOf(found) : helpOf(command));
    return wantsHelp ? EXIT.verified : EXIT.unusable;
  }
  try {
    return await report(command, argv, io);
  } catch (error) {
    return reportFault(error, own.includes("--json"), io);
  }
}

/** Returns the command with the longest match of the first words, or all commands that begin with a single word. */
function findCommands(argv: readonly string[]): readonly Command[] {
  const end = argv.findIndex((word) => word.startsWith("-"));
  const words = argv.slice(0, end < 0 ? argv.length : end);
  const named = COMMANDS.filter(({ name }) => name.split(" ").every((word, index) => word === words[index]));
  const [longest] = named.toSorted((a, b) => b.name.length - a.name.length);
  if (longest !== undefined) return [longest];
  return COMMANDS.filter(({ name }) => words.length < 2 && name.startsWith(words.join(" ")));
}

/** Separates a command's own arguments from the program that follows them. */
function programApart(
  command: Command | undefined,
  argv: readonly string[],
): readonly [own: readonly string[], program: readonly string[]] {
  const end = command?.takesProgram === true ? argv.indexOf("--") : -1;
  return end === -1 ? [argv, []] : [argv.slice(0, end), argv.slice(end + 1)];
}

async function report(command: Command, argv: readonly string[], io: CommandIo): Promise<number> {
  const input = parseInput(command, argv, io);
  const { lines, json, isOutputTaken = false, isRefused = false } = await command.run(input);
  const text = input.isJson ? `${JSON.stringify(json)}\n` : textOf(lines);
  if (isOutputTaken) io.note(text);
  else await io.write(text);
  return isRefused ? EXIT.refused : EXIT.verified;
}

async function reportFault(error: unknown, isJson: boolean, io: CommandIo): Promise<number> {
  if (error instanceof VerificationError) {
    const { fault, index, lastIndex, message } = error;
    const json = { verified: false, fault, index, last_index: lastIndex, message };
    await io.write(isJson ? `${JSON.stringify(json)}\n` : textOf([`REFUSED (${fault}): ${message}`]));
    return EXIT.refused;
  }
  if (!(error instanceof CommandError)) throw error;
  const { message } = error;
  if (isJson) await io.write(`${JSON.stringify({ error: message })}\n`);
  else io.note(textOf([`agentctl: ${message}`]));
  return EXIT.unusable;
}

const textOf = (lines: readonly string[]): string => lines.map((line) => `${printable(line)}\n`).join("");

function parseInput(
  command: Command,
  argv: readonly string[],
  io: CommandIo,
): CommandInput & { readonly isJson: boolean } {
  const known = [...command.options, "json", "help"] as const;
  const config = known.map((name) => {
    const { value, isRepeatable = false }: CommandOption = OPTIONS[name];
    return [name, { type: value === undefined ? ("boolean" as const) : ("string" as const), multiple: isRepeatable }];
  });
  const [own, program] = programApart(command, argv);
  const args = own.slice(command.name.split(" ").length);
  const { values, positionals } = parseOptions(idsLast(args), Object.fromEntries(config));
  const named = command.arguments.split(" ").filter((word) => /^(<|\[\w)/.test(word));
  const min = named.filter((word) => word.startsWith("<")).length;
  if (positionals.length < min || positionals.length > named.length) {
    throw new CommandError(`expected ${command.arguments || "no arguments"} after \`${command.name}\``);
  }
  const isJson = values.json === true;
  return {
    positionals,
    program,
    io,
    isJson,
    has: (name) => values[name] === true,
    show: async (lines) => (isJson ? io.note(textOf(lines)) : io.write(textOf(lines))),
    option: (name) => values[name] as string | undefined,
    options: (name) => (values[name] as readonly string[] | undefined) ?? [],
  };
}

/** Moves key thumbprints that begin with a hyphen behind the options, so that they are not parsed as options. */
function idsLast(args: readonly string[]): string[] {
  const isId = (arg: string): boolean => /^-[\w-]{42}$/.test(arg);
  const ids = args.filter(isId);
  return ids.length === 0 ? [...args] : [...args.filter((arg) => !isId(arg)), "--", ...ids];
}

type ParseOptions = NonNullable<Parameters<typeof parseArgs>[0]>["options"];

function parseOptions(
  args: string[],
  options: ParseOptions,
): { values: Record<string, unknown>; positionals: string[] } {
  try {
    const { values, positionals } = parseArgs({ args, options: options ?? {}, allowPositionals: true });
    return { values, positionals };
  } catch (error) {
    // The first sentence says what is wrong; the others explain conventions.
    const [first = ""] = (error as Error).message.split(". ");
    throw new CommandError(`${first.charAt(0).toLowerCase()}${first.slice(1)}`);
  }
}

/** Returns the help that lists several commands. */
function overviewOf(commands: readonly Command[]): string {
  return [
    "agentctl: verifies and explains the log of an Agent Control Plane, and tries actions and policies on it",
    "",
    ...columns(commands.map((command) => [usageOf(command), command.summary])),
    "",
    "`agentctl <command> --help` shows the options of a command.",
    "",
    ...EXIT_CODES,
    "",
  ].join("\n");
}

/** Returns the help of one command. */
function helpOf(command: Command): string {
  return [
    usageOf(command),
    "",
    `${command.summary}.`,
    ...command.details,
    "",
    "Options:",
    ...columns([...command.options, "json" as const, "help" as const].map(optionRow)),
    "",
    ...EXIT_CODES,
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
