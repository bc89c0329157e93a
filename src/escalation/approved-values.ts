import type { JsonObject } from "@bufbuild/protobuf";
import { doToEnd } from "../async/work.ts";
import type { ChangeScope } from "../log/changes.ts";
import { storedDigests } from "../log/observation.ts";
import { argumentsFrom } from "../policy/names.ts";
import { approvedFormsOf } from "../provenance/argument-values.ts";
import { packDigests } from "../provenance/digests.ts";
import { digestCount } from "../provenance/session-values.ts";
import { isInForce } from "../state/authority-status.ts";
import type { DecisionReason } from "../state/types.ts";
import { createId } from "../store/ids.ts";
import { forgetValues, insertApprovedValues } from "../store/sql/observations.ts";
import { readerWithin } from "../store/transaction.ts";

/** The action that an approval lets pass, with the reasons for which it was asked. */
export interface AskedAction {
  readonly sessionId: string | undefined;
  readonly metadata: JsonObject | undefined;
  readonly reasons: readonly Pick<DecisionReason, "argument" | "valueKind">[];
}

/** Members of the entry of an approval that say what its session takes as approved. */
export interface ApprovedValues {
  readonly session_id?: string;
  readonly values_approved?: number;
  readonly forgets?: readonly number[];
}

/**
 * Adds the values that an approval answers for to the session of the action: those of the arguments on which provenance rules asked,
 * each for its kind. The session trusts them from the entry of the approval on. An approval that no such rule asked for adds nothing.
 */
export async function approveValues(scope: ChangeScope, asked: AskedAction): Promise<ApprovedValues> {
  const { transaction, state, nowMs, nextSeq } = scope;
  const { sessionId, reasons, metadata } = asked;
  const forms = approvedFormsOf(reasons, argumentsFrom(metadata) ?? {});
  if (sessionId === undefined || forms.length === 0) return {};
  const item = state.authority.get(sessionId);
  if (item?.sealed.kind !== "session" || !isInForce(item, nowMs)) return {};
  const values = await scope.loadSession(sessionId);
  if (values === undefined) return {};
  const digests = { approved: doToEnd(packDigests(values.key, forms)) };
  const draft = { seq: nextSeq(), observationId: createId("obs"), kind: "approval", tool: undefined } as const;
  const { row, dropped, isFull } = values.fit({ ...draft, valuesDigest: "", digests });
  const count = digestCount(row);
  if (count === 0) return {};
  const stored = storedDigests(row).digests.toString("hex");
  const session = [state.workspaceId, sessionId];
  const reader = readerWithin(transaction);
  for (const seq of dropped) await reader.query({ ...forgetValues, values: [...session, seq] });
  const written = [...session, row.seq, row.observationId, stored, count, isFull];
  await reader.query({ ...insertApprovedValues, values: written });
  return { session_id: sessionId, values_approved: count, ...(dropped.length > 0 && { forgets: dropped }) };
}
