import { generateKeyPairSync } from "node:crypto";
import { Client } from "pg";
import { SigningKeys } from "../../src/authority/signing-key.ts";
import { AMOUNT_COLUMNS } from "../../src/log/amount-rows.ts";
import { createCheckpoints } from "../../src/log/checkpoint.ts";
import { CHANGED_COLUMNS, CREATED_COLUMNS } from "../../src/log/escalation-rows.ts";
import { OBSERVATION_COLUMNS } from "../../src/log/observation.ts";
import { OUTCOME_COLUMNS } from "../../src/log/outcome-rows.ts";
import { Vault } from "../../src/log/vault.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { openDatabase } from "../../src/store/database.ts";
import {
  APPEND_PARAMETERS,
  appendEntries,
  columnTexts,
  type EntryColumn,
  SUBTREE_HASHES,
} from "../../src/store/sql/append-entries.ts";
import { appendLeaves, bytesFromFrontier, EMPTY_FRONTIER } from "../../src/tree/merkle.ts";
import type { Child } from "./child.ts";
import type { BenchOptions } from "./options.ts";
import { type BenchPostgres, SILENT_LOG } from "./postgres.ts";
import { figure, median, tableFrom } from "./report.ts";
import { seedWorkspace } from "./service.ts";
import { type PartReport, WARM_UP_SECONDS } from "./throughput.ts";

const WORKSPACE = "bench";
const SMALL = 1_000;
/** Rows of one append: as many as the service gathers under load. */
const ROWS = 256;
/** Milliseconds of a turn. */
const TURN_MS = 100;
/** Least that appending may keep of its speed when the subtrees are stored. */
const LEAST_SPEED = 0.9;

interface Row {
  readonly workspaceId: string;
  readonly seq: number;
  readonly agentId: string;
  readonly actionType: string;
  readonly decision: string;
  readonly leafHash: Buffer;
  readonly body: string | null;
}

type Sealed = Row & { readonly body: string };

/** An append of the service, or the same one without the subtrees. */
interface Append {
  readonly workspaceId: string;
  readonly statement: { readonly name: string; readonly text: string };
  readonly keepsSubtrees: boolean;
}

const SUBTREE_ROOTS = `$${APPEND_PARAMETERS.indexOf("subtreeRoots") + 1}`;
const WITHOUT = {
  name: "append-without-subtrees",
  // The parameter stays, since node-postgres has to know its type.
  text: appendEntries.text.replace(SUBTREE_HASHES, `case when false then ${SUBTREE_ROOTS}::bytea end`),
};
const APPENDS: readonly [Append, Append] = [
  { workspaceId: "with-subtrees", statement: appendEntries, keepsSubtrees: true },
  { workspaceId: "without-subtrees", statement: WITHOUT, keepsSubtrees: false },
];

/** The columns of a row of the sample, under another id. */
const COLUMNS: Readonly<Record<EntryColumn, (appended: { readonly row: Sealed; readonly id: string }) => string>> = {
  entry_id: ({ id }) => id,
  kind: () => "0",
  agent_id: ({ row }) => row.agentId,
  principal_id: () => "",
  action_type: ({ row }) => row.actionType,
  decision: ({ row }) => row.decision,
  ref_id: () => "",
  session_id: () => "",
  body: ({ row }) => row.body,
};

const SAMPLE = `select workspace_id as "workspaceId", seq::float8 as seq, agent_id as "agentId",
    action_type as "actionType", decision::text, leaf_hash as "leafHash", body
  from ledger_entry where kind = 0 order by ledger_entry.seq desc limit ${ROWS}`;
const HEAD = "insert into ledger_head (workspace_id, seq, frontier, last_at_ms) values ($1, 0, '', 0)";

/** What appends the sample again and again to a log of its own. */
interface Appender {
  /** Appends for some time, and counts. */
  run(ms: number): Promise<void>;
  /** The rows a second since the last time that this was asked. */
  speed(): number;
}

async function createAppender(client: Client, sample: readonly Sealed[], append: Append): Promise<Appender> {
  const { workspaceId, statement, keepsSubtrees } = append;
  await client.query(HEAD, [workspaceId]);
  const leaves = sample.map(({ leafHash }) => leafHash);
  let frontier = EMPTY_FRONTIER;
  let [rows, ms] = [0, 0];

  const appendOnce = async (): Promise<void> => {
    const { size } = frontier;
    const before = bytesFromFrontier(frontier);
    const subtrees: Uint8Array[] = [];
    frontier = appendLeaves(frontier, leaves, subtrees);
    const values = appendEntries.values({
      workspaceId,
      expectedSize: size,
      count: leaves.length,
      expectedFrontier: before,
      frontier: bytesFromFrontier(frontier),
      atMs: Date.now(),
      leafHashes: Buffer.concat(leaves),
      subtreeRoots: Buffer.concat(keepsSubtrees ? subtrees : []),
      wakeUp: null,
      entries: columnTexts(
        sample.map((row, index) => ({ row, id: `dec_${size + index}` })),
        COLUMNS,
      ),
      created: columnTexts([], CREATED_COLUMNS),
      amounts: columnTexts([], AMOUNT_COLUMNS),
      changed: columnTexts([], CHANGED_COLUMNS),
      outcomes: columnTexts([], OUTCOME_COLUMNS),
      observations: columnTexts([], OBSERVATION_COLUMNS),
    });
    if ((await client.query({ name: statement.name, text: statement.text, values })).rows.length !== 1)
      throw new Error("nothing was appended");
  };

  return {
    async run(forMs) {
      const startedAt = performance.now();
      for (; performance.now() - startedAt < forMs; rows += leaves.length) await appendOnce();
      ms += performance.now() - startedAt;
    },
    speed() {
      const speed = (rows * 1_000) / ms;
      [rows, ms] = [0, 0];
      return speed;
    },
  };
}

/** Lets both append for some seconds, by turns so short that what disturbs the machine disturbs both. */
async function appendByTurns(kept: Appender, left: Appender, seconds: number): Promise<[number, number]> {
  const turns = Math.ceil((seconds * 1_000) / TURN_MS);
  for (let turn = 0; turn < turns; turn++) {
    const [first, second] = turn % 2 === 0 ? [kept, left] : [left, kept];
    await first.run(TURN_MS);
    await second.run(TURN_MS);
  }
  return [kept.speed(), left.speed()];
}

async function assertDiffer(client: Client): Promise<void> {
  const text =
    "select workspace_id from ledger_entry where subtree_hashes is not null and workspace_id = any($1) group by 1";
  const { rows } = await client.query(text, [APPENDS.map(({ workspaceId }) => workspaceId)]);
  if (rows.length !== 1 || rows[0].workspace_id !== APPENDS[0].workspaceId) throw new Error("both keep the same");
}

/** Rows a second of both appends, round by round. */
async function measureAppends({ seconds, rounds }: BenchOptions, databaseUrl: string): Promise<[number, number][]> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<Row>(SAMPLE);
    const sample = rows as Sealed[];
    const kept = await createAppender(client, sample, APPENDS[0]);
    const left = await createAppender(client, sample, APPENDS[1]);
    await appendByTurns(kept, left, WARM_UP_SECONDS);
    await assertDiffer(client);
    const speeds: [number, number][] = [];
    for (let round = 1; round <= rounds; round++) {
      const [first, second] = await appendByTurns(kept, left, seconds);
      speeds.push([first, second]);
      console.error(`round ${round}  append with subtrees ${figure(first)}, without ${figure(second)} rows/s`);
    }
    return speeds;
  } finally {
    await client.end();
  }
}

async function openVault(databaseUrl: string, cleanup: AsyncDisposableStack): Promise<Vault> {
  const options = { poolSize: 2, log: SILENT_LOG };
  const database = await openDatabase({ url: databaseUrl, ...options });
  cleanup.defer(() => database.close());
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  cleanup.defer(() => logs.close());
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const keys = new SigningKeys({ database, logs, privateKey });
  return new Vault({
    pool: database.pool,
    logs,
    sign: createCheckpoints("bench.example", keys),
    sealKey: (log) => keys.sealIn(log),
  });
}

/** Milliseconds of a proof of any entry. */
async function proofMs(vault: Vault, size: number): Promise<number> {
  const startedAt = performance.now();
  await vault.inclusion(WORKSPACE, Math.floor(Math.random() * size), undefined);
  return performance.now() - startedAt;
}

/** The median milliseconds of proofs in both logs, taken in turn, so that what disturbs one disturbs the other. */
async function proofsByTurns(vaults: readonly [Vault, Vault], seconds: number): Promise<[number, number]> {
  const [small, large] = vaults;
  const { treeSize: few } = await small.checkpoint(WORKSPACE, undefined);
  const { treeSize: many } = await large.checkpoint(WORKSPACE, undefined);
  const times: [number[], number[]] = [[], []];
  for (const endsAt = performance.now() + seconds * 1_000; performance.now() < endsAt; ) {
    times[0].push(await proofMs(small, few));
    times[1].push(await proofMs(large, many));
  }
  return [median(times[0]), median(times[1])];
}

async function measureProofs({ seconds, rounds }: BenchOptions, vaults: readonly [Vault, Vault]) {
  await proofsByTurns(vaults, WARM_UP_SECONDS);
  const times: [number, number][] = [];
  for (let round = 1; round <= rounds; round++) {
    const [small, large] = await proofsByTurns(vaults, seconds);
    times.push([small, large]);
    console.error(`round ${round}  proof in the small log ${figure(small)} ms, in the large ${figure(large)} ms`);
  }
  return times;
}

/** Leaves a log as it is some time after it was written: else each proof would first write what seeding left to write. */
async function settle(databaseUrl: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query("vacuum (analyze) ledger_entry");
  await client.query("checkpoint");
  await client.end();
}

/** What storing the roots of subtrees costs appends, and how the time of a proof grows with the log. */
export async function measureVault(
  options: BenchOptions,
  postgres: BenchPostgres,
  _load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const { entries } = options.vault;
  const seed = { agents: 10, otherMandates: 0 };
  const small = await seedWorkspace(postgres, "vault_small", { ...seed, decisions: SMALL });
  const large = await seedWorkspace(postgres, "vault_large", { ...seed, decisions: entries });
  await settle(small.databaseUrl);
  await settle(large.databaseUrl);
  const vaults = [await openVault(small.databaseUrl, cleanup), await openVault(large.databaseUrl, cleanup)] as const;
  const times = await measureProofs(options, vaults);
  const speeds = await measureAppends(options, small.databaseUrl);
  const mid = (pairs: readonly [number, number][], side: 0 | 1): string =>
    figure(median(pairs.map((pair) => pair[side])));
  const count = (value: number): string => value.toLocaleString("en");
  const rows = [
    [`inclusion proof, ${count(SMALL)} entries`, mid(times, 0), "ms"],
    [`inclusion proof, ${count(entries)} entries`, mid(times, 1), "ms"],
    [`append of ${ROWS} rows with subtrees`, mid(speeds, 0), "rows/s"],
    [`append of ${ROWS} rows without`, mid(speeds, 1), "rows/s"],
  ];
  const checks = [
    {
      name: "append with subtrees over without",
      figures: speeds.map(([kept, left]) => kept / left),
      bound: { atLeast: LEAST_SPEED },
      unit: "x",
    },
    {
      name: `proof in ${count(entries)} entries over ${count(SMALL)}`,
      figures: times.map(([few, many]) => many / few),
      // As the logarithms: a proof that read the log would take a thousand times as long.
      bound: { atMost: Number((Math.log2(entries) / Math.log2(SMALL)).toFixed(2)) },
      unit: "x",
    },
  ];
  return { text: tableFrom(["vault", "median", ""], rows), checks };
}
