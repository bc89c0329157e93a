/** The process as commands see it. */
export interface CommandIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Writes to standard output; resolves when more can be written (back-pressure). */
  write(text: string): Promise<void>;
  /** Writes to standard error. */
  note(text: string): void;
  /** True if a person reads standard error. Default false. */
  readonly isTerminal?: boolean;
  /** Asks a person a yes-or-no question; undefined without a terminal. */
  confirm(question: string): Promise<boolean | undefined>;
}

/** The arguments of a command, limited to the options that it lists. */
export interface CommandInput {
  readonly positionals: readonly string[];
  readonly io: CommandIo;
  /** Returns the last value of an option; undefined if it was not given. */
  option(name: OptionName): string | undefined;
  /** Returns every value of a repeatable option. */
  options(name: OptionName): readonly string[];
  /** Tests for a switch. */
  has(name: OptionName): boolean;
  /** Shows lines before the report; on standard error with `--json`. */
  show(lines: readonly string[]): Promise<void>;
}

/** The result of a command, for people and for programs. */
export interface CommandReport {
  /** Lines of text. */
  readonly lines: readonly string[];
  /** The same as JSON, for `--json`. */
  readonly json: object;
  /** True if the command wrote its output to standard output, so that the report goes to standard error. */
  readonly isOutputTaken?: boolean;
  /** True if what was looked at does not pass. Default false. */
  readonly isRefused?: boolean;
}

/** One command of `agentctl`. */
export interface Command {
  /** The words that call it: `vault verify`. */
  readonly name: string;
  /** The arguments after them, as help shows them; empty for none. A name in brackets is optional. */
  readonly arguments: string;
  readonly summary: string;
  /** Further lines of its own help: what is checked, what the result means. */
  readonly details: readonly string[];
  readonly options: readonly OptionName[];
  /** Throws `CommandError` for wrong usage and unreadable input, `VerificationError` for input that does not verify. */
  run(input: CommandInput): Promise<CommandReport>;
}

/** An option, as help shows it. */
export interface CommandOption {
  /** The placeholder for its value; undefined for a switch. */
  readonly value?: string;
  readonly isRepeatable?: boolean;
  readonly help: string;
}

/** Every option; a command lists those that it takes. */
export const OPTIONS = {
  url: { value: "address", help: "HTTP address of the service; else AGENTCTL_URL" },
  key: {
    value: "key",
    help: "API key (admin, operator or auditor); else AGENTCTL_KEY, which a list of processes does not show",
  },
  bundle: { value: "file", help: "read the log from this bundle instead of the service" },
  out: { value: "file", help: "write to this file instead of standard output" },
  checkpoint: {
    value: "file",
    isRepeatable: true,
    help: "a checkpoint that was kept earlier: the log must still contain it; may come more than once",
  },
  "keep-checkpoint": {
    value: "file",
    help: "write the checkpoint that was verified here, for `--checkpoint` of a later run",
  },
  "public-key": {
    value: "file",
    isRepeatable: true,
    help: "trust this ECDSA P-256 key (PEM) and no other; may come more than once",
  },
  jwks: { value: "file", help: "trust the keys of this JSON Web Key Set and no others" },
  since: {
    value: "time",
    help: "where the window begins: `30d`, `12h`, `45m` ago, or a time such as 2026-01-31T00:00:00Z",
  },
  until: { value: "time", help: "where the window ends, in the same forms; else with the last decision" },
  agent: { value: "agent", help: "the agent to report, to act as or to ask about" },
  tool: { value: "name", help: "the tool that would be called; else none" },
  "action-type": { value: "type", help: "the kind of action; else the name of the tool" },
  arguments: { value: "json", help: "the arguments of the call, as a JSON object" },
  supposed: { value: "decision", help: "the decision that was expected: allow, block or escalate" },
  from: { value: "version", help: "the version to compare with; else the last but one" },
  to: { value: "version", help: "the version to compare; else the last" },
  days: { value: "count", help: "how many days to look back, 1 to 3650; default 30" },
  pack: { value: "name", help: "the set of mandates that the files are; default `default`" },
  adopt: { help: "also take mandates that belong to no pack" },
  "allow-empty": { help: "accept files without any mandate, which archives every mandate of the pack" },
  yes: { help: "do not ask" },
  command: { value: "program", help: "a program that speaks MCP over its standard streams, in place of a URL" },
  arg: { value: "text", isRepeatable: true, help: "an argument of --command; may come more than once" },
  env: {
    value: "variable",
    isRepeatable: true,
    help: "an environment variable of --command, with its value from here; may come more than once",
  },
  header: {
    value: "name=variable",
    isRepeatable: true,
    help: "a header of every request, with its value from an environment variable; may come more than once",
  },
  settings: { value: "file", help: "the file to change; else the one of the project in this folder" },
  hold: { value: "seconds", help: "how long a call waits for a person, 0 to 3540; default 540" },
  quarantine: { help: "hide new and changed tools until a person accepts them" },
  generate: { help: "make the tests that are missing" },
  junit: { value: "file", help: "write a report in the XML form of JUnit to this file" },
  json: { help: "print one line of JSON" },
  help: { help: "print this help" },
} as const satisfies Readonly<Record<string, CommandOption>>;

/** The name of an option. */
export type OptionName = keyof typeof OPTIONS;

/** Reports wrong usage, or a file or service that cannot be read or written. The message says what to change. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** Reports that the service responded with a fault of its own (5xx). */
export class ServiceFailedError extends CommandError {}
