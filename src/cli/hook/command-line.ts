/** Word by which the settings show whose hook it is. */
const MARK = "agent-control-plane";
/** Variable that hooks of the earlier form sent as the key. */
const EARLIER_MARK = "ACP_AGENT_KEY";

/**
 * Script around the hook. It starts the hook with an empty environment, so that no variable of a project changes how Node.js runs,
 * and turns every failure into exit code 2 with a text, because other failures let the tool run. If the hook could not run, it
 * reads the rest of the event: Codex runs the tool if it cannot write the whole event.
 */
const scriptWith = (consequence: string): string =>
  [
    '/usr/bin/env -i "$@"',
    "code=$?",
    '[ "$code" = 0 ] || [ "$code" = 2 ] && exit "$code"',
    "command -p cat > /dev/null",
    `echo "Agent Control Plane: the hook did not run (exit code $code); run agentctl attach again. ${consequence}" >&2`,
    "exit 2",
  ].join("; ");
const SCRIPT = scriptWith("The tool did not run.");
const PROMPT_SCRIPT = scriptWith("The model did not get the prompt.");

/** Script around the hook after a tool, which the tool's end cannot wait for: it stops the agent if the hook did not run. */
const AFTER_SCRIPT = [
  '/usr/bin/env -i "$@" && exit 0',
  "code=$?",
  "command -p cat > /dev/null",
  `printf '{"continue":false,"stopReason":"Agent Control Plane: the hook did not run (exit code %s); run agentctl attach again. The tool ran."}' "$code"`,
].join("; ");

/** Program and arguments of a hook. */
export interface HookCommand {
  /** Absolute path of Node.js. */
  readonly node: string;
  /** Absolute path of the hook. */
  readonly hook: string;
  readonly client: string;
  /** Address of the control plane's endpoint for the client. */
  readonly endpoint: string;
  readonly holdSeconds: number;
  /** Path of the connection file, absolute or from the user's home (`~/…`). */
  readonly connection: string;
  /**
   * `tracked`: decides a call that another hook reports after the tool. `after`: reports it, with what the tool answered. `prompt`: tells
   * what a person asks. Default: decides a call that nothing reports.
   */
  readonly mode?: "tracked" | "after" | "prompt" | undefined;
}

/** Builds the command line of a hook. It contains no key, and reads the same in every shell with single quotes. */
export function commandLineFrom({ node, hook, client, endpoint, holdSeconds, connection, mode }: HookCommand): string {
  const script = mode === "after" ? AFTER_SCRIPT : mode === "prompt" ? PROMPT_SCRIPT : SCRIPT;
  const words = [script, MARK, node, hook, client, endpoint, String(holdSeconds), connection];
  if (mode !== undefined) words.push(mode);
  return ["/bin/sh -c", ...words.map(quoted)].join(" ");
}

/** Tests whether a hook of a client's settings is one that `agentctl attach` wrote, in this form or an earlier one. */
export function isOwnHook(hook: unknown, endpoint: string): boolean {
  const text = JSON.stringify(hook) ?? "";
  return text.includes(endpoint) && (text.includes(MARK) || text.includes(EARLIER_MARK));
}

/** Quotes a word for a POSIX shell. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
