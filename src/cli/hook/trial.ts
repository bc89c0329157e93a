import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { isJsonRecord, textAt, valueAt } from "../../verify/json.ts";
import { EVENT } from "./settings-file.ts";

/** Result of running an installed hook once. */
export type Trial =
  | {
      readonly kind: "decided";
      readonly decision: string;
      readonly decisionId: string;
      readonly agentId: string;
      readonly reason: string;
    }
  | { readonly kind: "failed"; readonly reason: string };

/** Call that the trial asks about, in both clients; it would do nothing. */
export const TRIAL_CALL = "`Bash` with `true`";

/** Runs the command line of a hook as the client does, with a call that would do nothing, and reads what it saw. */
export async function tryHook(commandLine: string, cwd: string): Promise<Trial> {
  const event = {
    session_id: "agentctl-attach",
    cwd,
    hook_event_name: EVENT,
    permission_mode: "default",
    tool_name: "Bash",
    tool_input: { command: "true" },
  };
  const child = spawn("/bin/sh", ["-c", `${commandLine} report`], { cwd: "/" });
  child.stdin.on("error", () => undefined).end(JSON.stringify(event));
  const [[code], stdout, stderr] = await Promise.all([once(child, "exit"), text(child.stdout), text(child.stderr)]);
  if (code !== 0) return { kind: "failed", reason: stderr.trim().split("\n")[0] ?? "" };
  const answer: unknown = JSON.parse(stdout);
  const decision = valueAt(answer, "decision");
  if (!isJsonRecord(decision)) {
    const reason = textAt(answer, "output.hookSpecificOutput.permissionDecisionReason");
    return { kind: "failed", reason };
  }
  const reasons = Array.isArray(decision.reasons) ? decision.reasons : [];
  return {
    kind: "decided",
    decision: textAt(decision, "decision"),
    decisionId: textAt(decision, "decision_id"),
    agentId: textAt(decision, "agent_id"),
    reason: reasons.map((each) => textAt(each, "message")).join("; "),
  };
}
