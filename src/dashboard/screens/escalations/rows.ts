import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useEffect, useMemo, useRef, useState } from "react";
import { type Escalation, EscalationStatus } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";

/** One card of the queue. */
export interface Row {
  readonly escalation: Escalation;
  /** Pending escalations with the same agent, type, tool, arguments and content. Only their other metadata differs. */
  readonly identical: readonly Escalation[];
}

const NONE: readonly Escalation[] = [];
/** Milliseconds that a resolved card stays in its place; longer while the pointer is on the queue. */
const LINGER_MS = 8_000;
const CHECK_MS = 1_000;

export const isPending = ({ status }: Escalation): boolean => status === EscalationStatus.PENDING;

const createdAt = ({ createdAt: at }: Escalation): number => (at === undefined ? 0 : timestampMs(at));

/** Returns the escalations resolved a moment ago. They stay in the queue, so that nothing moves under the pointer. */
export function useLingering(
  pending: readonly Escalation[],
  resolved: readonly Escalation[],
  isPointed: () => boolean,
): readonly Escalation[] {
  const wasPending = useRef(new Set<string>());
  const answeredAt = useRef(new Map<string, number>());
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const isQuiet = pending.length === 0;
  useEffect(() => {
    for (const { escalationId } of pending) wasPending.current.add(escalationId);
  }, [pending]);
  const lingering = useMemo(
    () => (isQuiet ? NONE : resolved.filter(({ escalationId: id }) => wasPending.current.has(id) && !left.has(id))),
    [isQuiet, resolved, left],
  );
  useEffect(() => {
    // The last pending escalation takes every resolved one out of the queue with it.
    if (isQuiet) setLeft(new Set(resolved.map(({ escalationId }) => escalationId)));
  }, [isQuiet, resolved]);
  useEffect(() => {
    if (lingering.length === 0) return;
    const now = performance.now();
    for (const { escalationId: id } of lingering) if (!answeredAt.current.has(id)) answeredAt.current.set(id, now);
    const timer = setInterval(() => {
      if (isPointed()) return;
      const limit = performance.now() - LINGER_MS;
      const over = lingering.filter(({ escalationId: id }) => (answeredAt.current.get(id) ?? 0) < limit);
      if (over.length > 0) setLeft((before) => new Set([...before, ...over.map(({ escalationId }) => escalationId)]));
    }, CHECK_MS);
    return () => clearInterval(timer);
  }, [lingering, isPointed]);
  return lingering;
}

/** Collapses identical pending escalations and puts resolved ones back in their places, oldest first. */
export function rowsFrom(pending: readonly Escalation[], lingering: readonly Escalation[]): readonly Row[] {
  const rows = collapsed(pending);
  if (lingering.length === 0) return rows;
  const answered = lingering.map((escalation) => ({ escalation, identical: NONE }));
  return [...rows, ...answered].sort((a, b) => createdAt(a.escalation) - createdAt(b.escalation));
}

function collapsed(pending: readonly Escalation[]): readonly Row[] {
  const alike = Map.groupBy(pending, ({ agentId, actionType, tool }) => `${agentId} ${tool ?? ""} ${actionType}`);
  const groups = [...alike.values()].flatMap((members) =>
    members.length === 1 ? [members] : [...Map.groupBy(members, contentKey).values()],
  );
  const rows = groups.map(([first, ...identical]) => ({
    escalation: first as Escalation,
    identical: identical.length === 0 ? NONE : identical,
  }));
  return rows.sort((a, b) => createdAt(a.escalation) - createdAt(b.escalation));
}

const contentKeys = new WeakMap<Escalation, string>();

/** Writes arguments and content as canonical text. It is cached, because arguments may have a megabyte. */
function contentKey(escalation: Escalation): string {
  const kept = contentKeys.get(escalation);
  if (kept !== undefined) return kept;
  const key = JSON.stringify([escalation.arguments ?? null, escalation.actionContent], sortMembers);
  contentKeys.set(escalation, key);
  return key;
}

function sortMembers(_name: string, value: unknown): unknown {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
