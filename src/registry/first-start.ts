import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { WorkspaceState } from "../state/workspace.ts";
import { registerFirstAgent } from "./agents.ts";
import { type DefaultWorkspaceOptions, ensureDefaultWorkspace } from "./default-workspace.ts";
import { DEFAULT_WORKSPACE_ID } from "./workspaces.ts";

/** What a newcomer needs to decide a first action. */
export interface FirstStart {
  /** The admin key; undefined when it was made elsewhere and is known only there. */
  readonly adminKey: string | undefined;
  /** An agent that may act; undefined when the workspace `default` has none any more. */
  readonly agentId: string | undefined;
}

/** How a first start is prepared. */
export interface FirstStartOptions extends DefaultWorkspaceOptions {
  /** Where a key that was made here is kept, readable by the owner alone, to be shown again. */
  readonly dataDir: string;
}

const KEY_FILE = "admin-key";
const OWNER_ONLY = 0o600;

/** The agent that a first start registers, so that an action can be decided at once. */
const EXAMPLE_AGENT = {
  name: "example-agent",
  framework: "curl",
  description: "Registered on first start, to try the control plane with.",
  capabilities: [],
  allowedActionTypes: [],
  deniedActionTypes: [],
};

async function keepKey(dataDir: string, secret: string): Promise<void> {
  const path = join(dataDir, KEY_FILE);
  await mkdir(dataDir, { recursive: true });
  await writeFile(path, `${secret}\n`, { mode: OWNER_ONLY });
  // The mode above holds for a new file only.
  await chmod(path, OWNER_ONLY);
}

async function keptKey(dataDir: string): Promise<string | undefined> {
  const text = await readFile(join(dataDir, KEY_FILE), "utf8").catch(() => "");
  return text.trim() || undefined;
}

function activeAgent(state: WorkspaceState): string | undefined {
  for (const agent of state.agents.values()) if (agent.status === "active") return agent.agentId;
  return undefined;
}

/** Makes the workspace `default`, its admin key and one agent, where they are missing. Safe to call from several processes. */
export async function prepareFirstStart(options: FirstStartOptions): Promise<FirstStart> {
  const { logs, adminKey, dataDir } = options;
  const { secret } = await ensureDefaultWorkspace(options);
  if (secret !== undefined && adminKey === undefined) await keepKey(dataDir, secret);
  const log = await logs.of(DEFAULT_WORKSPACE_ID);
  await registerFirstAgent(log, "system", EXAMPLE_AGENT);
  return { adminKey: adminKey ?? secret ?? (await keptKey(dataDir)), agentId: activeAgent(await log.caughtUp()) };
}
