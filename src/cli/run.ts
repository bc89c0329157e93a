import { parseArgs } from "node:util";
import { VerificationError } from "../verify/verification-error.ts";
import { versionOf } from "../version.ts";
import { attachClaudeCode, attachCodex } from "./attach.ts";
import { backupCheck } from "./backup-check.ts";
import { certificateVerify } from "./certificate-verify.ts";
import { printable } from "./columns.ts";
import {
  type Command,
  CommandError,
  type CommandInput,
  type CommandIo,
  type CommandOption,
  OPTIONS,
  ServiceError,
} from "./command.ts";
import { createCompletion } from "./completion.ts";
import { doctor } from "./doctor.ts";
import { preflight, probe } from "./dry-run.ts";
import { halt } from "./halt.ts";
import { commandsNamed, createHelp, helpOf, overviewOf, unknownCommand } from "./help.ts";
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
import { migrateStatus, migrateUp } from "./migrate.ts";
import { OBJECT_COMMANDS } from "./object-commands.ts";
import { packAdd } from "./pack/pack-add.ts";
import { packInit } from "./pack/pack-init.ts";
import { redactScan } from "./redact-scan.ts";
import { replay } from "./replay/replay.ts";
import { schemaMandate } from "./schema.ts";
import { RequestRefusedError } from "./service.ts";
import { signingKeyRetire } from "./signing-key-retire.ts";
import { vaultExplain } from "./vault-explain.ts";
import { vaultExport, vaultProve } from "./vault-export.ts";
import { vaultReport } from "./vault-report.ts";
import { vaultVerify } from "./vault-verify.ts";

const OWN_COMMANDS: readonly Command[] = [
  vaultVerify,
  vaultExport,
  vaultProve,
  vaultExplain,
  vaultReport,
  certificateVerify,
  backupCheck,
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
  packInit,
  packAdd,
  replay,
  schemaMandate,
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
  migrateStatus,
  migrateUp,
  doctor,
];

/** Every command of `agentctl`, in the order of its help. */
export const COMMANDS: readonly Command[] = [
  ...OWN_COMMANDS,
  ...OBJECT_COMMANDS,
  createHelp(() => COMMANDS),
  createCompletion(() => COMMANDS),
];

/** The exit codes of `agentctl`. */
export const EXIT = { verified: 0, refused: 1, unusable: 2 } as const;

/** Runs `agentctl` with its arguments and returns the exit code. Rejects only for an internal fault. */
export async function runAgentctl(argv: readonly string[], io: CommandIo): Promise<number> {
  if (argv[0] === "--version") {
    await io.write(`agentctl ${versionOf()}\n`);
    return EXIT.verified;
  }
  const found = commandsNamed(COMMANDS, argv);
  const [command] = found;
  const [own] = programApart(command, argv);
  const wantsHelp = own.includes("--help");
  if (command === undefined || argv.length === 0) {
    io.note(unknownCommand(COMMANDS, argv));
    return EXIT.unusable;
  }
  if (wantsHelp || found.length > 1) {
    await io.write(found.length > 1 ? overviewOf(found) : helpOf(command));
    return wantsHelp ? EXIT.verified : EXIT.unusable;
  }
  try {
    return await report(command, argv, io);
  } catch (error) {
    return reportFault(error, own.includes("--json"), command, io);
  }
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
  const text = input.isJson ? jsonLine(json) : textOf(lines);
  if (isOutputTaken) io.note(text);
  else await io.write(text);
  return isRefused ? EXIT.refused : EXIT.verified;
}

async function reportFault(error: unknown, isJson: boolean, { exit }: Command, io: CommandIo): Promise<number> {
  if (error instanceof VerificationError) {
    const { fault, index, lastIndex, message } = error;
    const json = { verified: false, fault, index, last_index: lastIndex, message };
    await io.write(isJson ? jsonLine(json) : textOf([`REFUSED (${fault}): ${message}`]));
    return EXIT.refused;
  }
  if (!(error instanceof CommandError)) throw error;
  const lines = [`agentctl: ${error.message}`, ...violationLines(error)];
  if (exit === "failure") {
    io.note(isJson ? jsonLine(faultJson(error)) : textOf(lines));
    return error instanceof ServiceError ? EXIT.refused : EXIT.unusable;
  }
  if (isJson) await io.write(jsonLine({ error: error.message }));
  else io.note(textOf(lines));
  return EXIT.unusable;
}

/** Returns the fields at fault that the message does not name itself. */
function violationLines(error: CommandError): string[] {
  if (!(error instanceof RequestRefusedError)) return [];
  return error.violations
    .filter(({ field, description }) => !error.message.includes(field) || !error.message.includes(description))
    .map(({ field, description }) => `  ${field}: ${description}`);
}

function faultJson(error: CommandError): object {
  const { message } = error;
  if (!(error instanceof RequestRefusedError)) return { error: { message } };
  const { status, reason, violations } = error;
  return { error: { message, status, reason, violations } };
}

/** Writes JSON in one line, with the escapes of what a terminal would act on: only texts can hold that, so the value is the same. */
const jsonLine = (json: object): string => `${printable(JSON.stringify(json))}\n`;

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
  const max = named.at(-1)?.endsWith("…]") === true ? Number.POSITIVE_INFINITY : named.length;
  if (positionals.length < min || positionals.length > max) {
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
    if (args.some((arg) => /^--key(=|$)/.test(arg)))
      throw new CommandError(
        "the key is no argument, which lists of processes show: set AGENTCTL_KEY or pass --key-file, `-` for standard input",
      );
    // The first sentence says what is wrong; the others explain conventions.
    const [first = ""] = (error as Error).message.split(". ");
    throw new CommandError(`${first.charAt(0).toLowerCase()}${first.slice(1)}`);
  }
}
