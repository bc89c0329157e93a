import { parseArgs } from "node:util";
import {
  type Command,
  CommandError,
  type CommandInput,
  type CommandIo,
  type CommandOption,
  OPTIONS,
} from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { helpFor, helpOf } from "./help.ts";
import { VerificationError } from "./verify/index.ts";

/** The exit codes of `agentctl`. */
export const EXIT = { verified: 0, refused: 1, unusable: 2 } as const;

/** Text of the log may hold anything; what would move a terminal's cursor or turn the text's direction is shown as code. */
function printable(line: string): string {
  return line.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be printed
    /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const textOf = (lines: readonly string[]): string => lines.map((line) => `${printable(line)}\n`).join("");

/** The commands that the first words fit, and how many words they are. */
function commandsFor(argv: readonly string[]): readonly Command[] {
  const words = argv.slice(0, 2).filter((word) => !word.startsWith("-"));
  const exact = COMMANDS.filter(({ name }) => name === words.join(" "));
  return exact.length > 0 ? exact : COMMANDS.filter(({ name }) => words.length < 2 && name.startsWith(words.join(" ")));
}

function inputFrom(
  command: Command,
  argv: readonly string[],
  io: CommandIo,
): CommandInput & { readonly isJson: boolean } {
  const known = [...command.options, "json", "help"] as const;
  const config = known.map((name) => {
    const { value, isRepeatable = false }: CommandOption = OPTIONS[name];
    return [name, { type: value === undefined ? ("boolean" as const) : ("string" as const), multiple: isRepeatable }];
  });
  const args = argv.slice(command.name.split(" ").length);
  const { values, positionals } = parsed(args, Object.fromEntries(config));
  const wanted = command.arguments.split(" ").filter((word) => /^[<[]\w/.test(word));
  const least = wanted.filter((word) => word.startsWith("<")).length;
  if (positionals.length < least || positionals.length > wanted.length) {
    throw new CommandError(`expected ${command.arguments || "no arguments"} after \`${command.name}\``);
  }
  return {
    ...{ positionals, io, isJson: values.json === true },
    option: (name) => values[name] as string | undefined,
    options: (name) => (values[name] as readonly string[] | undefined) ?? [],
  };
}

type ParseOptions = NonNullable<Parameters<typeof parseArgs>[0]>["options"];

function parsed(args: string[], options: ParseOptions): { values: Record<string, unknown>; positionals: string[] } {
  try {
    const { values, positionals } = parseArgs({ args, options: options ?? {}, allowPositionals: true });
    return { values, positionals };
  } catch (error) {
    // The first sentence says what is wrong; the others explain conventions.
    const [first = ""] = (error as Error).message.split(". ");
    throw new CommandError(`${first.charAt(0).toLowerCase()}${first.slice(1)}`);
  }
}

async function report(command: Command, argv: readonly string[], io: CommandIo): Promise<number> {
  const input = inputFrom(command, argv, io);
  const { lines, json, isOutputTaken = false } = await command.run(input);
  const text = input.isJson ? `${JSON.stringify(json)}\n` : textOf(lines);
  if (isOutputTaken) io.note(text);
  else await io.write(text);
  return EXIT.verified;
}

async function reportFault(error: unknown, isJson: boolean, io: CommandIo): Promise<number> {
  const isRefusal = error instanceof VerificationError;
  if (!isRefusal && !(error instanceof CommandError)) throw error;
  const { message } = error;
  if (isRefusal) {
    const { fault, index, lastIndex } = error;
    const json = { verified: false, fault, index, last_index: lastIndex, message };
    await io.write(isJson ? `${JSON.stringify(json)}\n` : textOf([`REFUSED (${fault}): ${message}`]));
    return EXIT.refused;
  }
  if (isJson) await io.write(`${JSON.stringify({ error: message })}\n`);
  else io.note(textOf([`agentctl: ${message}`]));
  return EXIT.unusable;
}

/** Runs `agentctl` with its arguments; gives the exit code. Rejects for a fault of its own alone. */
export async function runAgentctl(argv: readonly string[], io: CommandIo): Promise<number> {
  const found = commandsFor(argv);
  const [command] = found;
  const wantsHelp = argv.includes("--help");
  if (command === undefined || argv.length === 0) {
    io.note(`agentctl: no such command\n\n${helpFor(COMMANDS)}`);
    return EXIT.unusable;
  }
  if (wantsHelp || found.length > 1) {
    await io.write(found.length > 1 ? helpFor(found) : helpOf(command));
    return wantsHelp ? EXIT.verified : EXIT.unusable;
  }
  try {
    return await report(command, argv, io);
  } catch (error) {
    return reportFault(error, argv.includes("--json"), io);
  }
}
