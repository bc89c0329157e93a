import { type ApproverGroupLookup, type ApproverGroupSize, memberKey } from "../policy/approvers.ts";
import type { SealedApproverGroup } from "./control-changes.ts";

/** An approver group in force. */
export interface ApproverGroupState extends ApproverGroupSize {
  readonly sealed: SealedApproverGroup;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Returns the size of a group, for rules that name it. */
export const sizeOfGroup = ({ members, oidc_groups }: SealedApproverGroup): ApproverGroupSize => ({
  members: new Set(members.map(memberKey)),
  hasOidcGroups: oidc_groups.length > 0,
});

/** The approver groups of a workspace. */
export class ApproverGroups implements ApproverGroupLookup {
  readonly #groups = new Map<string, ApproverGroupState>();
  /** Increases with every change. */
  #revision = 0;

  get revision(): number {
    return this.#revision;
  }

  /** The groups, by name. */
  get all(): ReadonlyMap<string, ApproverGroupState> {
    return this.#groups;
  }

  sizeOf(name: string): ApproverGroupSize | undefined {
    return this.#groups.get(name);
  }

  names(): Iterable<string> {
    return this.#groups.keys();
  }

  /** Puts a group in force. */
  put(sealed: SealedApproverGroup, times: Pick<ApproverGroupState, "createdAtMs" | "updatedAtMs">): void {
    const { createdAtMs, updatedAtMs } = times;
    this.#revision += 1;
    this.#groups.set(sealed.name, { sealed, ...sizeOfGroup(sealed), createdAtMs, updatedAtMs });
  }

  /** Folds a change. */
  fold(sealed: SealedApproverGroup, atMs: number): void {
    this.put(sealed, { createdAtMs: this.#groups.get(sealed.name)?.createdAtMs ?? atMs, updatedAtMs: atMs });
  }

  /** Removes a group that was deleted. */
  remove(name: string): void {
    this.#revision += 1;
    this.#groups.delete(name);
  }
}
