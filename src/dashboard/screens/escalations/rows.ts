import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { type Escalation, EscalationStatus } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { COMPARISONS, groupOf, type Named, type QueueView } from "./queue-view.ts";

/** One line of the queue. */
export interface Row {
  readonly escalation: Escalation;
  /** The state by which it has its place: the last pending one, so that an answer moves nothing. */
  readonly placed: Escalation;
  /** Pending escalations with the same agent, type, tool, arguments and content. Only their other metadata differs. */
  readonly identical: readonly Escalation[];
}

/** An escalation that was resolved a moment ago. */
export interface Lingering {
  readonly escalation: Escalation;
  /** Its last state before the answer. */
  readonly placed: Escalation;
}

/** A heading above rows, or a row. */
export type Item =
  | { readonly kind: "row"; readonly id: string; readonly row: Row }
  | { readonly kind: "head"; readonly id: string; readonly title: string; readonly members: readonly Row[] };

const NONE: readonly Escalation[] = [];
const NOBODY: readonly Lingering[] = [];
/** Milliseconds that a resolved row stays in its place; longer while the pointer is on the queue. */
const LINGER_MS = 8_000;
const CHECK_MS = 1_000;

export const isPending = ({ status }: Escalation): boolean => status === EscalationStatus.PENDING;

/** Returns the id of a row's first escalation. */
export const idOfRow = ({ escalation }: Row): string => escalation.escalationId;

/** State of the queue by which rows linger. */
interface QueueState {
  /** True if nothing waits. */
  readonly isQuiet: boolean;
  /** Filter by whom they wait for. Rows that another one showed do not linger. */
  readonly filter: string;
  /** Tests whether the pointer is on the queue. */
  readonly isPointed: () => boolean;
}

/**
 * Returns the escalations that were shown until a moment ago, because they waited. They stay in the queue, so that nothing moves under
 * the pointer. `resolved`: those that are answered, or that wait for others now.
 */
export function useLingering(
  pending: readonly Escalation[],
  resolved: readonly Escalation[],
  { isQuiet, filter, isPointed }: QueueState,
): readonly Lingering[] {
  const wasPending = useRef({ filter, byId: new Map<string, Escalation>() });
  const answeredAt = useRef(new Map<string, number>());
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    if (wasPending.current.filter !== filter) wasPending.current = { filter, byId: new Map() };
    for (const escalation of pending) wasPending.current.byId.set(escalation.escalationId, escalation);
  }, [pending, filter]);
  const lingering = useMemo(() => {
    if (isQuiet || wasPending.current.filter !== filter) return NOBODY;
    return resolved.flatMap((escalation) => {
      const placed = wasPending.current.byId.get(escalation.escalationId);
      return placed === undefined || left.has(escalation.escalationId) ? [] : [{ escalation, placed }];
    });
  }, [isQuiet, filter, resolved, left]);
  useEffect(() => {
    // The last pending escalation takes every resolved one out of the queue with it.
    if (isQuiet) setLeft(new Set(resolved.map(({ escalationId }) => escalationId)));
  }, [isQuiet, resolved]);
  useEffect(() => {
    if (lingering.length === 0) return;
    const ids = lingering.map(({ escalation }) => escalation.escalationId);
    const now = performance.now();
    for (const id of ids) if (!answeredAt.current.has(id)) answeredAt.current.set(id, now);
    const timer = setInterval(() => {
      if (isPointed()) return;
      const limit = performance.now() - LINGER_MS;
      const over = ids.filter((id) => (answeredAt.current.get(id) ?? 0) < limit);
      if (over.length > 0) setLeft((before) => new Set([...before, ...over]));
    }, CHECK_MS);
    return () => clearInterval(timer);
  }, [lingering, isPointed]);
  return lingering;
}

/** Collapses identical pending escalations, puts resolved ones back in their places, and orders and groups them. */
export function rowsFrom(
  pending: readonly Escalation[],
  lingering: readonly Lingering[],
  { order, group }: Pick<QueueView, "order" | "group">,
): readonly Row[] {
  const compare = COMPARISONS[order];
  const answered = lingering.map((each) => ({ ...each, identical: NONE }));
  const rows = [...collapsed(pending, compare), ...answered].sort((a, b) => compare(a.placed, b.placed));
  if (group === "") return rows;
  return [...Map.groupBy(rows, ({ placed }) => groupOf(group, placed)?.id).values()].flat();
}

/** Puts a heading above the rows of each group, and above those that were answered before. */
export function itemsFrom(
  rows: readonly Row[],
  group: QueueView["group"],
  answered: readonly Escalation[],
): readonly Item[] {
  const items: Item[] = [];
  let named: Named | undefined;
  let members: Row[] = [];
  for (const row of rows) {
    const own = groupOf(group, row.placed);
    if (own !== undefined && own.id !== named?.id) {
      members = [];
      items.push({ kind: "head", id: `${group} ${own.id}`, title: own.name, members });
      named = own;
    }
    members.push(row);
    items.push({ kind: "row", id: idOfRow(row), row });
  }
  if (answered.length > 0) items.push({ kind: "head", id: "answered", title: "Just answered", members: [] });
  for (const escalation of answered) {
    const row = { escalation, placed: escalation, identical: NONE };
    items.push({ kind: "row", id: escalation.escalationId, row });
  }
  return items;
}

/** Rows in the order in which they are shown. */
export interface HeldRows {
  readonly rows: readonly Row[];
  /** Rows that wait to be shown until nobody points at the list. */
  readonly held: readonly Row[];
  /** Shows them now. */
  readonly show: () => void;
}

/** Keeps the order of the rows while somebody points at them: new rows that would move others wait. */
export function useHeldRows(sorted: readonly Row[], view: string, isPointed: boolean, hasMoreBelow: boolean): HeldRows {
  const shown = useRef<{ readonly view: string; readonly ids: readonly string[] }>({ view, ids: [] });
  const [shows, setShows] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows are held anew once the waiting ones were shown
  const { rows, held } = useMemo(() => {
    if (!isPointed || shown.current.view !== view) return { rows: sorted, held: [] };
    return heldFrom(shown.current.ids, sorted, hasMoreBelow);
  }, [sorted, view, isPointed, hasMoreBelow, shows]);
  useEffect(() => {
    shown.current = { view, ids: rows.map(idOfRow) };
  }, [rows, view]);
  const show = useCallback(() => {
    shown.current = { view, ids: sorted.map(idOfRow) };
    setShows((before) => before + 1);
  }, [sorted, view]);
  return { rows, held, show };
}

function heldFrom(ids: readonly string[], sorted: readonly Row[], hasMoreBelow: boolean) {
  const byId = new Map(sorted.map((row) => [idOfRow(row), row]));
  const kept = ids.flatMap((id) => byId.get(id) ?? []);
  const known = new Set(kept);
  const last = sorted.findLastIndex((row) => known.has(row));
  // Rows below the last one move nothing, unless the list goes on below them.
  const end = hasMoreBelow && last >= 0 ? sorted.length : last + 1;
  return { rows: [...kept, ...sorted.slice(end)], held: sorted.slice(0, end).filter((row) => !known.has(row)) };
}

function collapsed(pending: readonly Escalation[], compare: (a: Escalation, b: Escalation) => number): readonly Row[] {
  const alike = Map.groupBy(pending, ({ agentId, actionType, tool }) => `${agentId} ${tool ?? ""} ${actionType}`);
  const groups = [...alike.values()].flatMap((members) =>
    members.length === 1 ? [members] : [...Map.groupBy(members, contentKey).values()],
  );
  return groups.map((members) => {
    const [escalation, ...identical] = members as [Escalation, ...Escalation[]];
    const placed = identical.reduce((first, each) => (compare(each, first) < 0 ? each : first), escalation);
    return { escalation, placed, identical: identical.length === 0 ? NONE : identical };
  });
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
