import type { ChangeScope } from "../log/changes.ts";
import type { ProposedChange } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** A change that was checked as far as it can be before the end of the log is locked. */
export interface PreparedChange<T> {
  /** Makes the change and seals it. Returns a function that reads the result, to be called after the commit. */
  apply(scope: ChangeScope): Promise<() => T>;
  /** Returns the change as it is proposed where the workspace reviews changes; undefined for one that needs no review. */
  proposal(state: WorkspaceState): ProposedChange | undefined;
  /** Removes what was written ahead of a change that was not made. Absent: nothing was. */
  discard?(): Promise<void>;
}
