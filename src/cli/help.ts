import { type Command, type CommandOption, OPTIONS, type OptionName } from "./command.ts";

const EXIT_CODES = [
  "Exit codes:",
  "  0  verified, or done",
  "  1  refused: what was looked at does not verify",
  "  2  called wrongly, or something cannot be read or written",
];

const usageOf = ({ name, arguments: rest }: Command): string => `agentctl ${name}${rest === "" ? "" : ` ${rest}`}`;

/** Pads the first cells of rows to one width. */
function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([first]) => first.length));
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`);
}

function optionRow(name: OptionName): readonly [string, string] {
  const { value, help }: CommandOption = OPTIONS[name];
  return [`--${name}${value === undefined ? "" : ` <${value}>`}`, help];
}

/** The help for several commands. */
export function helpFor(commands: readonly Command[]): string {
  return [
    "agentctl: verifies, exports and explains the log of an Agent Control Plane",
    "",
    ...columns(commands.map((command) => [usageOf(command), command.summary])),
    "",
    "`agentctl <command> --help` shows the options of a command.",
    "",
    ...EXIT_CODES,
    "",
  ].join("\n");
}

/** The help of one command. */
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
    ...EXIT_CODES,
    "",
  ].join("\n");
}
