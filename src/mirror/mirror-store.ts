import type { Pool } from "pg";
import type { Decision } from "../policy/types.ts";
import type { HistoryEntry } from "../state/counters/log-history.ts";
import { decisionFromNumber } from "../state/types.ts";
import { readMirrored } from "../store/sql/read-entries.ts";
import { APPEND, BEGIN, FIELDS, FORGET, LOST, READ } from "./scripts.ts";

/** The part of a log's entry that a mirror keeps. */
export interface MirrorEntry {
  readonly seq: number;
  /** Epoch milliseconds. */
  readonly at: number;
  /** Base64url. */
  readonly leafHash: string;
  /** Null for an entry that is not a decision. */
  readonly decided: Omit<HistoryEntry, "at"> | null;
}

/** Source of the logs that are mirrored. */
export interface MirrorSource {
  /** The entries from an index on, oldest first; fewer than asked for only at the log's end. */
  entries(workspaceId: string, from: number, limit: number): Promise<MirrorEntry[]>;
}

/** The extent of a recording. */
export interface Recording {
  readonly gen: string;
  /** Time after which no decision is missing, epoch milliseconds. */
  readonly since: number;
  /** Index up to which it is complete. */
  readonly seq: number;
  /** Leaf hash of the entry before `seq`. */
  readonly leafHash: string;
}

/** An agent with how many decisions are recorded and the time of the last. */
export interface RecordedAgent {
  readonly agentId: string;
  readonly count: number;
  readonly lastAt: number;
}

/** A recorded decision with its index in the log. */
export interface RecordedEntry extends HistoryEntry {
  readonly seq: number;
}

/** Commands that a mirror needs from Redis. All MUST reject in bounded time when there is no answer. */
export interface RedisCommands {
  eval(script: string, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>;
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  hgetall(key: string): Promise<Record<string, string>>;
}

/** The mirror of one log in Redis. All functions reject when Redis does not answer. */
export interface MirrorStore {
  /** The extent of the recording; undefined when nothing is recorded. */
  recording(): Promise<Recording | undefined>;
  /** The same with every agent. */
  recordingWithAgents(): Promise<{ readonly recording: Recording; readonly agents: RecordedAgent[] } | undefined>;
  /** Begins a new recording after `last` in place of `instead`, unless another process was first. */
  begin(instead: Recording | undefined, gen: string, last: MirrorEntry, keepMs: number): Promise<void>;
  /**
   * Adds the entries after those of a recording. Returns false if the recording has ended, and true if the entries are in it or
   * another process was first.
   */
  append(recording: Recording, entries: readonly MirrorEntry[], keepMs: number): Promise<boolean>;
  /** Reads the decisions of agents; undefined when some are lost, which ends the recording. */
  read(recording: Recording, agentIds: readonly string[]): Promise<RecordedEntry[] | undefined>;
  /** Removes agents without a decision after a time. */
  forget(recording: Recording, agentIds: readonly string[], until: number): Promise<void>;
}

/** Milliseconds that keys outlive their content, so that clocks may differ and writers may be away for a while. */
const SLACK_MS = 3_600_000;
const LETTERS: Readonly<Record<Decision, string>> = { allow: "a", block: "b", escalate: "e" };
const DECISIONS: Readonly<Record<string, Decision>> = { a: "allow", b: "block", e: "escalate" };

type Decided = MirrorEntry & { readonly decided: NonNullable<MirrorEntry["decided"]> };
const isDecided = (entry: MirrorEntry): entry is Decided => entry.decided !== null;

const memberFrom = ({ seq, decided: { actionType, decision, principalId = "" } }: Decided): string =>
  `${seq.toString(36)} ${LETTERS[decision]}${principalId} ${actionType}`;

function entryFrom(agentId: string, member: string, at: string): RecordedEntry {
  const [index = "", decided = ""] = member.split(" ", 2);
  return {
    seq: Number.parseInt(index, 36),
    at: Number(at),
    agentId,
    principalId: decided.slice(1) || undefined,
    actionType: member.slice(index.length + decided.length + 2),
    decision: DECISIONS[decided[0] ?? ""] as Decision,
  };
}

function entriesFrom(agentIds: readonly string[], sets: readonly string[][]): RecordedEntry[] {
  const entries: RecordedEntry[] = [];
  sets.forEach((members, set) => {
    for (let index = 0; index < members.length; index += 2) {
      entries.push(entryFrom(agentIds[set] as string, members[index] as string, members[index + 1] as string));
    }
  });
  return entries;
}

function recordingFrom([gen, since, seq, leafHash]: readonly (string | null | undefined)[]): Recording | undefined {
  if (gen == null || since == null || seq == null || leafHash == null) return undefined;
  return { gen, since: Number(since), seq: Number(seq), leafHash };
}

function agentFrom([agentId, value]: readonly [string, string]): RecordedAgent {
  const [count, lastAt] = value.split(" ");
  return { agentId, count: Number(count), lastAt: Number(lastAt) };
}

interface Row {
  readonly seq: number;
  readonly at: number;
  readonly kind: number;
  readonly agentId: string;
  readonly principalId: string | null;
  readonly actionType: string;
  readonly decision: number;
  readonly leafHash: Buffer;
}

/** Reads the logs from the database. */
export function createMirrorSource(pool: Pool): MirrorSource {
  const decidedIn = ({ agentId, principalId, actionType, decision }: Row): NonNullable<MirrorEntry["decided"]> => ({
    agentId,
    principalId: principalId ?? undefined,
    actionType,
    decision: decisionFromNumber(decision),
  });
  const mirrorEntry = (row: Row): MirrorEntry => {
    const { seq, at, kind, leafHash } = row;
    return { seq, at, leafHash: leafHash.toString("base64url"), decided: kind === 0 ? decidedIn(row) : null };
  };
  return {
    async entries(workspaceId, from, limit) {
      const { rows } = await pool.query<Row>({ ...readMirrored, values: [workspaceId, from, limit] });
      return rows.map(mirrorEntry);
    },
  };
}

/** True when entries that were read from `recording.seq - 1` on show that the recording is of this log. */
export function continues([first]: readonly MirrorEntry[], { seq, leafHash }: Recording): boolean {
  return first?.seq === seq - 1 && first.leafHash === leafHash;
}

/** Creates the mirror of a log, which its workspace and its first leaf hash identify. */
export function createMirrorStore(redis: RedisCommands, workspaceId: string, firstLeafHash: string): MirrorStore {
  const hash = `acp:2:{${workspaceId}:${firstLeafHash.slice(0, 22)}}`;
  const setOf = ({ gen }: Recording, agentId: string): string => `${hash}:${gen}:${agentId}`;
  const keysOf = (recording: Recording, agentIds: readonly string[]): string[] => [
    hash,
    ...agentIds.map((agentId) => setOf(recording, agentId)),
  ];
  const names = [FIELDS.gen, FIELDS.since, FIELDS.seq, FIELDS.leaf];

  return {
    recording: async () => recordingFrom(await redis.hmget(hash, ...names)),
    async recordingWithAgents() {
      const fields = await redis.hgetall(hash);
      const recording = recordingFrom(names.map((name) => fields[name]));
      if (recording === undefined) return undefined;
      const agents = Object.entries(fields).filter(([name]) => !name.startsWith("@"));
      return { recording, agents: agents.map(agentFrom) };
    },
    async begin(instead, gen, { at, seq, leafHash }, keepMs) {
      await redis.eval(BEGIN, [hash], [instead?.gen ?? "", gen, at, seq + 1, leafHash, keepMs + SLACK_MS]);
    },
    async append(recording, entries, keepMs) {
      const last = entries.at(-1);
      if (last === undefined) return true;
      const byAgent = Map.groupBy(entries.filter(isDecided), ({ decided }) => decided.agentId);
      const sets = [...byAgent].flatMap(([agentId, own]) => [
        agentId,
        own.length,
        ...own.flatMap((entry) => [entry.at, memberFrom(entry)]),
      ]);
      const { gen, seq, leafHash } = recording;
      const extent = [gen, seq, leafHash, last.seq + 1, last.leafHash, last.at - keepMs, keepMs + SLACK_MS];
      return (await redis.eval(APPEND, keysOf(recording, [...byAgent.keys()]), [...extent, ...sets])) !== LOST;
    },
    async read(recording, agentIds) {
      const reply = await redis.eval(READ, keysOf(recording, agentIds), [recording.gen, ...agentIds]);
      return reply === LOST ? undefined : entriesFrom(agentIds, reply as string[][]);
    },
    async forget(recording, agentIds, until) {
      await redis.eval(FORGET, keysOf(recording, agentIds), [recording.gen, until, ...agentIds]);
    },
  };
}
