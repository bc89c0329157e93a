import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import { type ListDraft, suppositionalList } from "../registry/lists.ts";
import { checkedDraft, type MandateDraft } from "../registry/mandates.ts";
import { type OneToolDraft, suppositionalTool } from "../registry/tools.ts";
import { requireCounters, type WorkspaceState } from "../state/workspace.ts";

/** A mandate that a dry run applies as if it were published. */
export interface Draft {
  readonly mandate: MandateDraft;
  /** The mandate in force that it replaces; undefined adds it. */
  readonly replacesMandateId: string | undefined;
}

/** Gives the event loop its turn between two pieces of long work. */
export type GiveTurn = () => Promise<void>;

/** Puts tools in force, as they would be, in a state that nobody else uses. Throws what registering each of them would. */
export async function applyTools(
  state: WorkspaceState,
  tools: readonly OneToolDraft[],
  giveTurn: GiveTurn,
): Promise<void> {
  for (const [index, draft] of tools.entries()) {
    state.policies.putTool(suppositionalTool(state, draft, `tools[${index}]`), state.lastAtMs);
    await giveTurn();
  }
}

/** Puts lists in force, as they would be, in a state that nobody else uses. Throws INVALID_FIELD with the fields below `lists[0]` and so on. */
export async function applyLists(state: WorkspaceState, lists: readonly ListDraft[]): Promise<void> {
  const { lastAtMs } = state;
  for (const [index, draft] of lists.entries()) {
    const list = await suppositionalList(draft, `lists[${index}]`);
    state.lists.put(list, { createdAtMs: lastAtMs, updatedAtMs: lastAtMs });
  }
}

/**
 * Puts drafts in force in a state that nobody else uses. Throws what publishing each of them would, with the fields below
 * `drafts[0]` and so on.
 */
export async function applyDrafts(state: WorkspaceState, drafts: readonly Draft[], giveTurn: GiveTurn): Promise<void> {
  const replaced = new Set<string>();
  for (const [index, draft] of drafts.entries()) {
    const path = `drafts[${index}]`;
    const { replacesMandateId: id } = draft;
    if (id !== undefined && replaced.has(id)) {
      throw invalidField(`${path}.replaces_mandate_id`, `names \`${id}\`, which an earlier draft replaces`);
    }
    if (id !== undefined) replaced.add(id);
    try {
      applyDraft(state, draft, path);
    } catch (error) {
      throw error instanceof ControlPlaneError ? below(path, error) : error;
    }
    await giveTurn();
  }
  requireCounters(state, state.seq);
}

function applyDraft(state: WorkspaceState, { mandate, replacesMandateId }: Draft, path: string): void {
  const { policies, seq, lastAtMs } = state;
  const replaced = replacesMandateId === undefined ? undefined : policies.mandates.get(replacesMandateId);
  if (replacesMandateId !== undefined && replaced === undefined) {
    throw notInForce("replaces_mandate_id", replacesMandateId);
  }
  const { id, version } = replaced?.compiled ?? { id: path, version: 0 };
  const sealed = checkedDraft(state, id, version + 1, mandate);
  const origin = { createdAtMs: lastAtMs, updatedAtMs: lastAtMs, createdSeq: seq, createdBy: undefined };
  policies.putMandate(sealed, { ...origin, pack: undefined });
}

/** Creates the error for a field that names a mandate which is not in force. */
export function notInForce(field: string, mandateId: string): ControlPlaneError {
  const description = `names \`${mandateId}\`, which is not a mandate in force`;
  return new ControlPlaneError(
    ErrorReason.MANDATE_NOT_FOUND,
    `\`${field}\` ${description}`,
    { mandate_id: mandateId, field },
    { violations: [{ field, description, reason: "MANDATE_NOT_FOUND" }] },
  );
}

function below(path: string, { reason, message, metadata, violations, cause }: ControlPlaneError): ControlPlaneError {
  // A name that is taken is the only fault without fields.
  const description = "is the name of another mandate; give the draft `replaces_mandate_id`, or another name";
  const named = reason === ErrorReason.MANDATE_EXISTS ? [{ field: "name", description, reason: "MANDATE_EXISTS" }] : [];
  const found = (violations.length === 0 ? named : violations).map((violation) => ({
    ...violation,
    field: `${path}.${violation.field}`,
  }));
  const field = metadata.field === undefined ? {} : { field: `${path}.${metadata.field}` };
  const text = `\`${path}\`: ${message}`;
  return new ControlPlaneError(reason, text, { ...metadata, ...field, draft: path }, { cause, violations: found });
}
