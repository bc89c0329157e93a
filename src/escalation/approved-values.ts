import type { JsonObject } from "@bufbuild/protobuf";
import type { ChangeScope } from "../log/changes.ts";
import { storedDigests } from "../log/observation.ts";
import { argumentsFrom } from "../policy/names.ts";
import { approvedFormsOf } from "../provenance/argument-values.ts";
import { packDigests } from "../provenance/digests.ts";
import { digestCount } from "../provenance/session-values.ts";
import { isInForce } from "../state/authority-status.ts";
import type { DecisionReason } from "../state/types.ts";
import { createId } from "../store/ids.ts";
import { insertApprovedValues } from "../store/sql/observations.ts";
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
}

/**
 * Adds the values that an approval answers for to the session of the action: those of the arguments on which provenance rules asked,
 * each for its kind. The session trusts them from the entry of the approval on. An approval that no such rule asked for adds nothing.
 */
export async function approveValues(scope: ChangeScope, asked: AskedAction): Promise<ApprovedValues> {
  const { transaction, state, nowMs, nextSeq } = scope;
  const { sessionId } = asked;
  const forms = formsIn(asked);
  if (sessionId === undefined || forms.length === 0) return {};
  const session = state.authority.get(sessionId);
  if (session?.sealed.kind !== "session" || !isInForce(session, nowMs)) return {};
  const values = await scope.loadSession(sessionId);
  if (values === undefined) return {};
  const digests = { approved: resultOf(packDigests(values.key, forms)) };
  const draft = { seq: nextSeq(), observationId: createId("obs"), kind: "approval", tool: undefined } as const;
  const { row, isFull } = values.fit({ ...draft, valuesDigest: "", digests });
  const count = digestCount(row);
  if (count === 0) return {};
  const stored = storedDigests(row).digests.toString("hex");
  const names = [state.workspaceId, sessionId, row.seq, row.observationId];
  await readerWithin(transaction).query({ ...insertApprovedValues, values: [...names, stored, count, isFull] });
  return { session_id: sessionId, values_approved: count };
}

/** Runs steps to their end: an action has few values. */
function resultOf<T>(steps: Generator<undefined, T, undefined>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Lists the values on which provenance rules asked, as an approval names them. */
function formsIn({ reasons, metadata }: AskedAction): readonly string[] {
  const asked = reasons.flatMap(({ argument, valueKind: kind }) =>
    argument === undefined || kind === undefined ? [] : [{ argument, kind }],
  );
  return approvedFormsOf(asked, argumentsFrom(metadata) ?? {});
}
