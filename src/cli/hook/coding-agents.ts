import { join } from "node:path";

/** A coding agent whose tool calls the control plane decides. */
export interface CodingAgent {
  /** Word of the command and of the endpoint. */
  readonly name: "claude-code" | "codex";
  readonly title: string;
  /** Settings file of a project, from its folder. */
  readonly settings: string;
  /** Managed configuration of the machine, which neither a user nor a project can change. */
  readonly managed: { readonly path: string; readonly form: "json" | "toml" };
  /** Events after a tool, which say how it ended. */
  readonly afterEvents: readonly ("PostToolUse" | "PostToolUseFailure")[];
  /** Members of the hook before a tool, beside its command line and timeout. */
  readonly hook: { readonly onFailure?: "block" };
  /** How calls can still pass undecided after `attach`, as lines of the report. */
  readonly gaps: readonly string[];
}

/** Claude Code. From 2.1.295 on it blocks a call if the hook cannot start or runs out of time. */
export const CLAUDE_CODE: CodingAgent = {
  name: "claude-code",
  title: "Claude Code",
  settings: join(".claude", "settings.json"),
  managed: {
    path:
      process.platform === "darwin"
        ? "/Library/Application Support/ClaudeCode/managed-settings.d/agent-control-plane.json"
        : "/etc/claude-code/managed-settings.d/agent-control-plane.json",
    form: "json",
  },
  afterEvents: ["PostToolUse", "PostToolUseFailure"],
  hook: { onFailure: "block" },
  gaps: ["`disableAllHooks` in any settings, `--bare` and `--safe-mode` skip the hook: tools then run undecided."],
};

/** Codex. */
export const CODEX: CodingAgent = {
  name: "codex",
  title: "Codex",
  settings: join(".codex", "hooks.json"),
  managed: { path: "/etc/codex/requirements.toml", form: "toml" },
  // A tool that fails has no event of its own: its outcome stays open.
  afterEvents: ["PostToolUse"],
  hook: {},
  gaps: [
    "Codex skips the hook, and runs tools undecided: in a folder that is not trusted; until you trust the hook in `/hooks`, and",
    "again after each change of it; in `codex exec` without that trust, in some versions even with it; with `features.hooks = false`.",
  ],
};

/** Path of the agent's endpoint below the address of the control plane. */
export const endpointOf = ({ name }: CodingAgent): string => `/v1/hooks/${name}`;
