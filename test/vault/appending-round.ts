import { spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { SigningKeys } from "../../src/authority/signing-key.ts";
import { createCheckpoints } from "../../src/log/checkpoint.ts";
import { Vault } from "../../src/log/vault.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { registerAgent } from "../../src/registry/agents.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { openDatabase } from "../../src/store/database.ts";
import { areEqual } from "../../src/verify/bytes.ts";
import { isConsistent, rootFromInclusion } from "../../src/verify/merkle.ts";
import { naiveLeaf, naiveTree } from "../log/naive-tree.ts";
import { withOwner } from "../support/owner.ts";
import { directUrlOf } from "../support/pooler.ts";
import { readNote } from "./read-note.ts";

/** Settings of a round. */
export interface RoundOptions {
  readonly processes: number;
  readonly seconds: number;
}

/** Result of a round. */
export interface AppendingReport {
  readonly decisions: number;
  readonly entries: number;
  /** Checkpoints that were taken while the processes appended. */
  readonly checkpoints: number;
  /** Proofs that were verified. */
  readonly proofs: number;
  /** Faults, one line each. */
  readonly faults: readonly string[];
}

const SILENT_LOG = { info: () => undefined, warn: () => undefined, error: () => undefined };
const WORKSPACE = "default";
/** Milliseconds between the looks of the observer. */
const LOOK_MS = 50;
const READY_MS = 90_000;
/** Milliseconds within which a process has to end after its time is over. */
const END_MS = 60_000;

interface Observed {
  readonly size: number;
  readonly root: Uint8Array;
}

/** A process that appends: started, and not told to begin. */
async function startAppender(cleanup: AsyncDisposableStack, url: string, agentId: string, ms: number) {
  const args = [join(import.meta.dirname, "appender-process.ts"), url, agentId, String(ms)];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  cleanup.defer(() => void child.kill("SIGKILL"));
  const lines: string[] = [];
  const reader = createInterface(child.stdout);
  const ended = once(reader, "close");
  await once(reader, "line", { signal: AbortSignal.timeout(READY_MS) });
  reader.on("line", (line) => lines.push(line));
  return {
    begin: () => child.stdin.end("go\n"),
    /** The decisions that it was told of; throws when it ended early. */
    async told(): Promise<readonly string[]> {
      const late = pause(ms + END_MS, "late", { ref: false });
      if ((await Promise.race([ended, late])) === "late") throw new Error("a process that appends does not end");
      if (lines.pop() !== "end") throw new Error("a process that appends ended early");
      return lines.filter((line) => line !== "");
    },
  };
}

/** Watches the log as a stranger would: each checkpoint verified, and proved to continue the one before. */
async function observe(vault: Vault, isOver: () => boolean, faults: string[]) {
  const observed: Observed[] = [];
  let proofs = 0;
  const check = (holds: boolean, what: string): void => {
    proofs += 1;
    if (!holds) faults.push(what);
  };
  for (let isLast = false; !isLast; ) {
    isLast = isOver();
    const { note, verifierKey } = await vault.checkpoint(WORKSPACE, undefined);
    const { treeSize: size, root } = await readNote(note, verifierKey);
    proofs += 1;
    for (const earlier of [observed.at(-1), observed[Math.floor(observed.length / 3)]]) {
      if (earlier === undefined) continue;
      const proof = await vault.consistency(WORKSPACE, earlier.size, size);
      const isOfBoth = areEqual(earlier.root, proof.fromRoot) && areEqual(root, proof.toRoot);
      check(isOfBoth && (await isConsistent(proof)), `${size} entries do not begin with the ${earlier.size} before`);
    }
    const index = Math.floor(Math.random() * size);
    const { leafHash, path } = await vault.inclusion(WORKSPACE, index, size);
    const found = await rootFromInclusion(leafHash, { leafIndex: index, treeSize: size, auditPath: path });
    check(found !== undefined && areEqual(found, root), `entry ${index} of ${size} is not proved`);
    observed.push({ size, root });
    if (!isLast) await pause(LOOK_MS);
  }
  return { observed, proofs };
}

interface Row {
  readonly seq: number;
  readonly entry_id: string;
  readonly kind: number;
  readonly body: string;
}

function repeated(values: readonly string[]): string[] {
  const seen = new Set<string>();
  return values.filter((value) => seen.size === seen.add(value).size);
}

/** Compares the log as it is stored with what the processes were told and the observer saw. */
function compare(rows: readonly Row[], told: readonly string[], observed: readonly Observed[], faults: string[]): void {
  rows.forEach(({ seq }, index) => {
    if (seq !== index) faults.push(`index ${index} is taken by entry ${seq}`);
  });
  for (const id of repeated(rows.map((row) => row.entry_id))) faults.push(`entry ${id} is there twice`);
  const stored = new Set(rows.filter(({ kind }) => kind === 0).map(({ entry_id, seq }) => `${entry_id} ${seq}`));
  for (const decision of told) if (!stored.delete(decision)) faults.push(`decision ${decision} was told and is lost`);
  for (const decision of stored) faults.push(`decision ${decision} is there and was never told`);
  const tree = naiveTree(rows.map(({ body }) => naiveLeaf(body)));
  for (const { size, root } of observed) {
    if (!areEqual(tree.root(0, size), root))
      faults.push(`the bodies of ${size} entries have another root than was signed`);
  }
  if (observed.at(-1)?.size !== rows.length) faults.push("the last checkpoint does not speak for all entries");
}

const readRows = (url: string): Promise<Row[]> =>
  withOwner(url, async (client) => {
    const text = "select seq::float8 as seq, entry_id, kind, body from ledger_entry order by ledger_entry.seq";
    return (await client.query<Row>(text)).rows;
  });

async function openVault(url: string, cleanup: AsyncDisposableStack): Promise<{ vault: Vault; agentId: string }> {
  const database = await openDatabase({
    url,
    directUrl: directUrlOf(url),
    poolSize: 5,
    log: SILENT_LOG,
  });
  cleanup.defer(() => database.close());
  await createWorkspace({ database, nowMs: Date.now(), by: "system" }, { workspaceId: WORKSPACE });
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  cleanup.defer(() => logs.close());
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const keys = new SigningKeys({ database, logs, privateKey });
  const sign = createCheckpoints("appenders.example", keys);
  const named = { name: "appender", framework: "", description: "", capabilities: [] };
  const registration = { ...named, allowedActionTypes: [], deniedActionTypes: [] };
  const { agentId } = await registerAgent(await logs.of(WORKSPACE), "key_test", registration);
  return { vault: new Vault({ pool: database.pool, logs, sign, sealKey: (log) => keys.sealIn(log) }), agentId };
}

/** Lets processes append to one workspace of an empty database, watched meanwhile, and compares everything after. */
export async function runAppendingRound(url: string, { processes, seconds }: RoundOptions): Promise<AppendingReport> {
  await using cleanup = new AsyncDisposableStack();
  const { vault, agentId } = await openVault(url, cleanup);
  const starting = Array.from({ length: processes }, () => startAppender(cleanup, url, agentId, seconds * 1_000));
  const appenders = await Promise.all(starting);
  const faults: string[] = [];
  let isOver = false;
  const observing = observe(vault, () => isOver, faults);
  for (const { begin } of appenders) begin();
  const told = (await Promise.all(appenders.map((appender) => appender.told()))).flat();
  isOver = true;
  const { observed, proofs } = await observing;
  const rows = await readRows(url);
  compare(rows, told, observed, faults);
  return { decisions: told.length, entries: rows.length, checkpoints: observed.length, proofs, faults };
}
