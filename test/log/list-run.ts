import { createHash } from "node:crypto";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { decisionsOf, readLog } from "./stored-log.ts";

/** A process that decides and changes lists. */
export interface ListReplica {
  add(list: string, values: readonly string[]): Promise<void>;
  remove(list: string, values: readonly string[]): Promise<void>;
  /** Decides one action on a value. */
  decide(value: string): Promise<void>;
}

/** A list in a log. */
export interface LoggedList {
  readonly databaseUrl: string;
  /** The list, which blocks what it does not hold. */
  readonly list: string;
  /** Values of changes that are too large for their entries, by digest. Default: there are none. */
  readonly contents?: ReadonlyMap<string, readonly string[]>;
}

/** Settings of a run. */
export interface ListRunOptions extends LoggedList {
  readonly replicas: readonly ListReplica[];
  readonly values: number;
  /** Values of one change. */
  readonly atOnce: number;
}

/** Result of a run. */
export interface ListRun {
  readonly decisions: number;
  /** Allowed decisions, and lists that decisions saw. */
  readonly allowed: number;
  readonly listsSeen: number;
  /** Descriptions of the faults; empty if every decision agrees with the list at its place in the log. */
  readonly faults: readonly string[];
}

/** SHA-256 of the RFC 8785 array of sorted values. */
export const digestOfValues = (values: Iterable<string>): string =>
  createHash("sha256")
    .update(canonicalJson([...values].sort()))
    .digest("hex");

const nameOf = (index: number): string => `value ${index}`;

/** Adds values from all processes in turn, now and then removing some again, while each process decides without a pause. */
export async function runList(options: ListRunOptions): Promise<ListRun> {
  const { replicas, list, values, atOnce } = options;
  let added = 0;
  let isOver = false;
  const change = async (): Promise<void> => {
    for (let round = 0; added < values; round++) {
      const replica = replicas[round % replicas.length] as ListReplica;
      const next = Array.from({ length: Math.min(atOnce, values - added) }, (_, index) => nameOf(added + index));
      await replica.add(list, next);
      added += next.length;
      if (round % 5 === 4) await replica.remove(list, next.slice(0, atOnce / 2));
    }
    isOver = true;
  };
  const decide = async (replica: ListReplica, offset: number): Promise<void> => {
    for (let index = offset; !isOver; index += 7_919) await replica.decide(nameOf(index % (added + atOnce)));
  };
  await Promise.all([
    change(),
    ...replicas.flatMap((replica, index) => [decide(replica, index), decide(replica, 100 + index)]),
  ]);
  return checkLog(options);
}

interface SealedChange {
  readonly name: string;
  readonly digest_after: string;
  readonly added_values: readonly string[];
  readonly removed_values: readonly string[];
  readonly is_cut: boolean;
}

/** Follows a list through the log and compares every decision with it. */
export async function checkLog({ databaseUrl, list, contents = new Map() }: LoggedList): Promise<ListRun> {
  const log = await readLog(databaseUrl);
  let held = new Set<string>();
  const faults: string[] = [];
  const seen = new Set<string>();
  let digest = "";
  let allowed = 0;
  for (const { body, seq } of log.entries) {
    const entry = JSON.parse(body);
    if (entry.type === "list_changed" && entry.list.name === list) {
      const change: SealedChange = entry.list;
      if (change.is_cut) held = new Set(contents.get(change.digest_after));
      else {
        for (const each of change.added_values) held.add(each);
        for (const each of change.removed_values) held.delete(each);
      }
      digest = digestOfValues(held);
      if (digest !== change.digest_after) faults.push(`entry ${seq} seals another list than its values make`);
    }
    if (entry.type !== "decision") continue;
    const want = held.has(entry.action.metadata.to) ? "allow" : "block";
    const used = entry.lists?.[0]?.digest;
    if (want === "allow") allowed += 1;
    seen.add(used);
    if (entry.decision !== want || used !== digest)
      faults.push(`entry ${seq} decides ${entry.decision} on ${entry.action.metadata.to} with the list ${used}`);
  }
  return { decisions: decisionsOf(log).length, allowed, listsSeen: seen.size, faults };
}
