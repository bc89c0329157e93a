import type { JsonMembers } from "./canonical-text.ts";
import { VerificationError } from "./verification-error.ts";

/** Refuses an entry of another workspace than the log's: the last part of an origin is the id of its workspace. */
export function assertOfLog({ workspace_id: workspaceId }: JsonMembers, origin: string, index: number): void {
  if (workspaceId === origin.slice(origin.lastIndexOf("/") + 1)) return;
  const message = `entry ${index} is of workspace \`${String(workspaceId)}\`, and the log is \`${origin}\``;
  throw new VerificationError("workspace", message, index);
}
