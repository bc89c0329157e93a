/** Interface of commands to the process. */
export interface CommandIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Writes to standard output; resolves when more can be written (back-pressure). */
  write(text: string): Promise<void>;
  /** Writes to standard error. */
  note(text: string): void;
  /** True if a person reads standard error. Default false. */
  readonly isTerminal?: boolean;
  /** Columns of the terminal that shows standard output; undefined if it is none. */
  readonly columns?: number | undefined;
  /** Reads standard input to its end; undefined if that is a terminal. Default: nothing is read. */
  read?(): string | undefined;
  /** Asks a person a yes-or-no question; undefined without a terminal. */
  confirm(question: string): Promise<boolean | undefined>;
  /** Asks a person for a text that the terminal does not show; undefined without a terminal. Default: nobody is asked. */
  secret?(question: string): Promise<string | undefined>;
}

/** The arguments of a command, limited to the options that it lists. */
export interface CommandInput {
  readonly positionals: readonly string[];
  /** Words after `--`, of a command that takes a program. */
  readonly program: readonly string[];
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
  /** True if the input was refused. Default false. */
  readonly isRefused?: boolean;
}

/** One command of `agentctl`. */
export interface Command {
  /** Words of the command, such as `vault verify`. */
  readonly name: string;
  /** Arguments after these words, in the form of the help text. A name in brackets is optional, one with `…` may be repeated. */
  readonly arguments: string;
  readonly summary: string;
  /** Further lines of the command's help, such as the checks and the meaning of the result. */
  readonly details: readonly string[];
  readonly options: readonly OptionName[];
  /** True if a program with its own arguments may follow `--`. */
  readonly takesProgram?: boolean;
  /**
   * Meaning of exit code 1. `verdict`: the input was refused, while a service that fails or cannot be reached is 2, so that it is
   * never taken for a refusal. `failure`: the service refused the call, failed, or cannot be reached. Default `verdict`.
   */
  readonly exit?: "verdict" | "failure";
  /** Throws `CommandError` for wrong usage and unreadable input, `VerificationError` for input that does not verify. */
  run(input: CommandInput): Promise<CommandReport>;
}

/** An option in the help text. */
export interface CommandOption {
  /** The placeholder for its value; undefined for a switch. */
  readonly value?: string;
  readonly isRepeatable?: boolean;
  readonly help: string;
}

/** Every option; a command lists those that it takes. */
export const OPTIONS = {
  url: { value: "address", help: "HTTP address of the service; else AGENTCTL_URL" },
  "key-file": {
    value: "file",
    help: "read the API key (admin, operator or auditor) from this file, or from standard input with `-`; else AGENTCTL_KEY",
  },
  bundle: { value: "file", help: "read the log from this bundle instead of the service" },
  out: { value: "file", help: "write to this file instead of standard output" },
  checkpoint: {
    value: "file",
    isRepeatable: true,
    help: "a checkpoint that was kept earlier and that the log must still contain; may be repeated",
  },
  against: {
    value: "file",
    isRepeatable: true,
    help: "kept checkpoints, one or many in a file such as that of ACP_CHECKPOINT_FILE, that the log must still contain; may be repeated",
  },
  "database-url": {
    value: "url",
    help: "the PostgreSQL server of the scratch database; default: an embedded one. The password comes from PGPASSWORD",
  },
  "keep-checkpoint": {
    value: "file",
    help: "write the verified checkpoint to this file, for `--checkpoint` of a later run",
  },
  "public-key": {
    value: "file",
    isRepeatable: true,
    help: "trust only this ECDSA P-256 key (PEM); may be repeated",
  },
  jwks: { value: "file", help: "trust only the keys of this JSON Web Key Set" },
  since: {
    value: "time",
    help: "start of the window: `30d`, `12h`, `45m` ago, or a time such as 2026-01-31T00:00:00Z",
  },
  until: { value: "time", help: "end of the window, in the same forms; default: the last decision" },
  order: { value: "order", help: "`rule`, the newest mandate first, or `fill`, the fullest first; default: rule" },
  agent: { value: "agent", help: "the agent to report, to act as or to ask about" },
  mandate: { value: "mandate", help: "decisions of which a rule of this mandate fired alone" },
  tool: { value: "name", help: "the called tool" },
  "action-type": { value: "type", help: "the kind of action; default: the name of the tool" },
  arguments: { value: "json", help: "the arguments of the call, as a JSON object" },
  supposed: { value: "decision", help: "the decision that was expected: allow, block or escalate" },
  from: { value: "version", help: "the version to compare with; default: the last but one" },
  to: { value: "version", help: "the version to compare; default: the last" },
  days: { value: "count", help: "how many days to look back, 1 to 3650; default 30" },
  pack: {
    value: "name",
    help: "the pack of the mandates in the files, default `default`; of `replay`, a file or folder of mandates, or standard or frugal",
  },
  format: { value: "format", help: "how recordings are written: jsonl, claude-code or agentdyn; default jsonl" },
  lists: { value: "file", help: "named lists as they would be, YAML or JSON" },
  tools: { value: "file", help: "tools as they would be registered, YAML or JSON; or a file of `agentctl pack init`" },
  plans: { value: "file", help: "a file of `agentctl pack init`, whose words make a plan of each session's prompt" },
  outside: { value: "answer", help: "what happens outside of a plan: block, escalate or rules; default rules" },
  hidden: {
    help: "suppose that results hide the values of attacks: what is asked about only because it was seen passes",
  },
  labels: { value: "file", help: "labels of the calls that belong to attacks, YAML or JSON" },
  escalated: { value: "answer", help: "what a person does when asked: `run`, or `skip` to refuse all; default run" },
  attack: { value: "name", help: "leave out runs with another attack than this one" },
  half: { value: "half", help: "runs of one half of the users' tasks alone: even, or odd" },
  adopt: { help: "also take mandates that belong to no pack" },
  "allow-empty": { help: "accept files without a mandate, which archives every mandate of the pack" },
  mine: { help: "only what waits for you" },
  "only-drafts": { help: "compare with the rules in force, not with what was decided: what the drafts alone change" },
  keep: { help: "keep the question and its numbers for 30 days, for `backtests show` and the dashboard" },
  off: { help: "end the halt" },
  "rate-limit-key": {
    value: "rate",
    help: "calls per second of one key in each process, such as `100`, or `100:500` for 500 at once; empty: no limit",
  },
  "rate-limit-workspace": { value: "rate", help: "the same of all keys of the workspace together" },
  yes: { help: "do not ask for confirmation" },
  "dry-run": { help: "show what would happen, and change nothing" },
  command: { value: "program", help: "a program that speaks MCP over its standard streams, instead of a URL" },
  arg: { value: "text", isRepeatable: true, help: "an argument of --command; may be repeated" },
  env: {
    value: "variable",
    isRepeatable: true,
    help: "an environment variable of --command, with its value from this environment; may be repeated",
  },
  header: {
    value: "name=variable",
    isRepeatable: true,
    help: "a header of every request, with its value from an environment variable; may be repeated",
  },
  "remove-header": { value: "name", isRepeatable: true, help: "a header to send no longer; may be repeated" },
  "pass-method": {
    value: "method",
    isRepeatable: true,
    help: "a method that passes undecided, besides those of the gateway's table; may be repeated",
  },
  "pass-meta": {
    value: "key",
    isRepeatable: true,
    help: "a key of `_meta` that is passed on, besides those of the specification; may be repeated",
  },
  drift: {
    value: "age",
    help: "maximum age of a listing: `each_call`, or seconds up to 86400; default each_call with --quarantine, else 5",
  },
  idle: { value: "seconds", help: "seconds without a call after which --command is ended, 1 to 86400; default 300" },
  scrub: {
    value: "kind",
    isRepeatable: true,
    help: "a kind of personal values to replace in what the server sends, such as `email`; may be repeated",
  },
  settings: { value: "file", help: "the file to change; default: the settings of the project in this folder" },
  hold: { value: "seconds", help: "seconds that a call waits for a person, 0 to 3540; default 540" },
  managed: { help: "write the configuration of the whole machine, which no user or project can switch off" },
  root: { value: "folder", help: "write the files of --managed below this folder instead of `/`, to copy them from" },
  quarantine: { help: "hide new and changed definitions until a person accepts them" },
  open: { help: "put new and changed definitions in force at once" },
  kind: {
    value: "kind",
    help: "of a definition: tool, prompt, resource, resource_template or instructions; of a list: text, host or email_domain",
  },
  "expected-digest": { value: "digest", help: "the digest that the list must have; `none` if it must not exist" },
  generate: { help: "generate missing tests" },
  junit: { value: "file", help: "write a JUnit XML report to this file" },
  limit: { value: "count", help: "how many rows to list; default 50" },
  all: { help: "list every row" },
  file: {
    value: "file",
    help: "read the members of the request, or the values of a list, from this file; `-` is standard input",
  },
  "secret-file": {
    value: "file",
    help: "write the new secret to this new file, readable by its owner alone, instead of showing it",
  },
  description: { value: "text", help: "a description" },
  name: { value: "name", help: "the name" },
  status: { value: "status", help: "list those of this status alone, such as `active` or `pending`" },
  decision: { value: "decision", help: "list those decisions alone: allow, block or escalate" },
  outcome: {
    value: "status",
    help: "list allowed actions of this outcome alone: pending, unknown, succeeded, failed or cancelled",
  },
  "prompt-from": {
    value: "whom",
    help: "who may say what an agent was asked: `agent` for its own key as well, or `operator`",
  },
  outcomes: { value: "which", help: "the outcomes that are tracked: `tracked` for claimed actions alone, or `all`" },
  "outcome-timeout": { value: "seconds", help: "seconds after which a pending outcome becomes unknown" },
  amount: { value: "number", help: "the amount that the action came to" },
  error: { value: "text", help: "the cause of a failure" },
  department: { value: "department", help: "list those of this department alone" },
  session: { value: "session", help: "list those of this session alone" },
  parent: { value: "grant", help: "list the grants that were passed on from this one" },
  search: { value: "text", help: "list those whose name or id contains this text" },
  framework: { value: "name", help: "the agent's framework" },
  require: {
    value: "what",
    isRepeatable: true,
    help: "what every action of the agent must have: session, prompt or contract; may be repeated",
  },
  capability: { value: "name", isRepeatable: true, help: "a capability of the agent; may be repeated" },
  role: { value: "role", help: "the role of the key or person: admin, operator, auditor, or agent of a key" },
  owner: { value: "person", help: "the person who owns the key; of a list: those of this owner alone" },
  issuer: { value: "url", help: "the issuer under which the person signs in" },
  subject: { value: "text", help: "the id of the person at the issuer, its claim `sub`" },
  "answered-by": { value: "person", help: "list those that this key or person answered, with any of their keys" },
  ttl: { value: "seconds", help: "seconds until it expires" },
  waiting: { help: "only those that wait for an answer" },
  reviews: { value: "count", help: "others who must accept a change of mandates or lists, 0 to 10" },
  wait: { help: "wait until others have accepted or rejected a change that needs them" },
  note: { value: "text", help: "a note that is kept with the answer, or with the versions that are published" },
  reason: { value: "text", help: "the reason, which is sealed" },
  purpose: { value: "text", help: "the purpose of the session" },
  event: {
    value: "event",
    isRepeatable: true,
    help: "an event to send, such as `escalation.created`; may be repeated",
  },
  pause: { help: "send nothing until `--resume`" },
  resume: { help: "send again what is not yet sent" },
  "as-written": { help: "show rules in the form in which they were written" },
  json: { help: "print one line of JSON" },
  help: { help: "print this help" },
} as const satisfies Readonly<Record<string, CommandOption>>;

/** The name of an option. */
export type OptionName = keyof typeof OPTIONS;

/** Error for wrong usage, or for a file or service that cannot be read or written. The message says what to change. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** Error for a service that refuses a request, fails, or cannot be reached. */
export class ServiceError extends CommandError {}

/** Error for a fault of the service (5xx). */
export class ServiceFailedError extends ServiceError {}
