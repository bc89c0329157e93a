import { CommandError, type CommandInput } from "./command.ts";

/** Options for what passes to and from an MCP server, and for its times. */
export const LIMIT_OPTIONS = ["pass-method", "pass-meta", "drift", "idle", "scrub"] as const;

/** Help for these options. */
export const LIMIT_DETAILS = [
  "`--pass-method`, `--pass-meta` and `--scrub` may be repeated. `--scrub email` replaces e-mail addresses in everything that the",
  "server sends. `--drift` bounds how long a listing of definitions is relied on: `each_call`, or seconds.",
];

/** Members of a request that the options give; an option that is not given leaves its member out. */
export function limitsFrom(input: CommandInput): Record<string, unknown> {
  const drift = input.option("drift");
  const idle = input.option("idle");
  if (idle !== undefined && !/^\d{1,9}$/.test(idle)) throw new CommandError("--idle is a number of seconds");
  return {
    ...listOf(input, "pass-method", "pass_methods"),
    ...listOf(input, "pass-meta", "pass_meta"),
    ...listOf(input, "scrub", "scrub"),
    ...(drift === undefined ? {} : { drift }),
    ...(idle === undefined ? {} : { idle_seconds: Number(idle) }),
  };
}

/** Returns a list; one empty value stands for the empty list. */
function listOf(input: CommandInput, option: "pass-method" | "pass-meta" | "scrub", member: string) {
  const given = input.options(option);
  if (given.length === 0) return {};
  return { [member]: given.length === 1 && given[0] === "" ? [] : given };
}
