/** Parameters of the statement that are single values, in their order. */
const SINGLES = [
  "workspaceId",
  // Number of entries that the log must have, and number of entries to append.
  "expectedSize",
  "count",
  // Frontier that the log must have, and the one that it gets.
  "expectedFrontier",
  "frontier",
  // Time of the entries, epoch milliseconds.
  "atMs",
  // Leaf hashes, and roots of the perfect subtrees that the leaves complete in the order of completion: 32 bytes each.
  "leafHashes",
  "subtreeRoots",
  // Message for other replicas; null when nobody waits.
  "wakeUp",
] as const;
type Single = (typeof SINGLES)[number];

const $ = (name: Single): string => `$${SINGLES.indexOf(name) + 1}`;
const size = `${$("expectedSize")}::bigint`;

/** The columns of an entry, each with the SQL that reads it from its text in `r`. */
const ENTRY = {
  entry_id: "r.entry_id",
  kind: "r.kind::smallint",
  agent_id: "r.agent_id",
  principal_id: "nullif(r.principal_id, '')",
  action_type: "nullif(r.action_type, '')",
  decision: "nullif(r.decision, '')::smallint",
  ref_id: "nullif(r.ref_id, '')",
  session_id: "nullif(r.session_id, '')",
  body: "r.body",
} as const;

/** The columns of an escalation that a decision creates, read from `e`. Seqs come as positions in the batch, from 0, lists as JSON. */
const CREATED = {
  escalation_id: "e.escalation_id",
  agent_id: "e.agent_id",
  action_digest: "e.action_digest",
  created_seq: `${size} + e.created_seq::int`,
  expires_at_ms: "e.expires_at_ms::bigint",
  asked: "e.asked::int",
  asked_by: "array(select jsonb_array_elements_text(e.asked_by::jsonb))",
  updated_seq: `${size} + nullif(e.updated_seq, '')::int`,
  needs: "nullif(e.needs, '')::jsonb",
  remind_at_ms: "nullif(e.remind_at_ms, '')::bigint",
} as const;

/** The columns of an earlier escalation, `x`, that decisions join, use up or replace, read from `u`. An empty text keeps the value. */
const CHANGED = {
  used_by: "coalesce(nullif(u.used_by, ''), x.used_by)",
  replaced_by: "coalesce(nullif(u.replaced_by, ''), x.replaced_by)",
  asked: "x.asked + u.asked::int",
  asked_by: `array(
        select key from unnest(x.asked_by) as key
        union select jsonb_array_elements_text(u.asked_by::jsonb) order by key
      )`,
  updated_seq: `coalesce(${size} + nullif(u.updated_seq, '')::int, x.updated_seq)`,
  needs: "case when nullif(u.needs, '') is null then x.needs else coalesce(x.needs, '[]'::jsonb) || u.needs::jsonb end",
  remind_at_ms: "least(x.remind_at_ms, nullif(u.remind_at_ms, '')::bigint)",
} as const;

/** The columns of an action's outcome, read from `o`. A later entry replaces what an earlier one wrote. */
const OUTCOME = {
  decision_id: "o.decision_id",
  decision_seq: "o.decision_seq::bigint",
  agent_id: "o.agent_id",
  status: "o.status::smallint",
  due_at_ms: "nullif(o.due_at_ms, '')::bigint",
} as const;

/** The columns of an amount in the pot of a budget, read from `b`. */
const AMOUNT = {
  pot: "b.pot",
  at_ms: "b.at_ms::bigint",
  decision_seq: "b.decision_seq::bigint",
  seq: "b.seq::bigint",
  state: "b.state::smallint",
  agent_id: "b.agent_id",
  principal_id: "nullif(b.principal_id, '')",
  millionths: "b.millionths::bigint",
} as const;

/**
 * The columns of what a session observed, read from `v`. `forgets` lists the rows of the session that lose their values. The statement
 * cannot take them from rows that it writes itself.
 */
const OBSERVATION = {
  session_id: "v.session_id",
  seq: "v.seq::bigint",
  observation_id: "v.observation_id",
  kind: "v.kind::smallint",
  tool: "nullif(v.tool::jsonb #>> '{}', '')",
  values_digest: "decode(v.values_digest, 'hex')",
  // All values of a column are null where all are empty.
  digests: "decode(coalesce(v.digests, ''), 'hex')",
  source_counts: "v.source_counts::integer[]",
  is_full: "v.is_full = '1'",
} as const;

/** Columns of the rows that the statement writes. */
export type EntryColumn = keyof typeof ENTRY;
export type CreatedEscalationColumn = keyof typeof CREATED;
export type ChangedEscalationColumn = keyof typeof CHANGED | "escalation_id";
export type OutcomeColumn = keyof typeof OUTCOME;
export type AmountColumn = keyof typeof AMOUNT;
export type ObservationColumn = keyof typeof OBSERVATION | "forgets";

const ENTRY_NAMES = Object.keys(ENTRY) as EntryColumn[];
const CREATED_NAMES = Object.keys(CREATED) as CreatedEscalationColumn[];
const CHANGED_NAMES: ChangedEscalationColumn[] = [
  "escalation_id",
  ...(Object.keys(CHANGED) as (keyof typeof CHANGED)[]),
];

const OUTCOME_NAMES = Object.keys(OUTCOME) as OutcomeColumn[];
const AMOUNT_NAMES = Object.keys(AMOUNT) as AmountColumn[];
const OBSERVATION_STORED = Object.keys(OBSERVATION) as (keyof typeof OBSERVATION)[];
const OBSERVATION_NAMES: ObservationColumn[] = [...OBSERVATION_STORED, "forgets"];

/** Names of the parameters, in their order. */
export const APPEND_PARAMETERS: readonly string[] = [
  ...SINGLES,
  ...ENTRY_NAMES.map((column) => `entry.${column}`),
  ...CREATED_NAMES.map((column) => `created.${column}`),
  ...CHANGED_NAMES.map((column) => `changed.${column}`),
  ...OUTCOME_NAMES.map((column) => `outcomes.${column}`),
  ...AMOUNT_NAMES.map((column) => `amounts.${column}`),
  ...OBSERVATION_NAMES.map((column) => `observations.${column}`),
];

/** The values of the statement: single ones, and the texts of the rows by column. */
export type AppendedBatch = Readonly<Record<Single, unknown>> & {
  readonly entries: ColumnTexts<EntryColumn>;
  readonly created: ColumnTexts<CreatedEscalationColumn>;
  readonly changed: ColumnTexts<ChangedEscalationColumn>;
  readonly outcomes: ColumnTexts<OutcomeColumn>;
  readonly amounts: ColumnTexts<AmountColumn>;
  readonly observations: ColumnTexts<ObservationColumn>;
};

/** The values of each column, joined by line feeds; null if all of them are empty. */
export type ColumnTexts<Column extends string> = Readonly<Record<Column, string | null>>;

/** Joins the values of each column of some rows. MUST NOT be given a value that holds a line feed. */
export function columnTexts<Column extends string, Row>(
  rows: readonly Row[],
  columns: Readonly<Record<Column, (row: Row) => string | number>>,
): ColumnTexts<Column> {
  const texts = {} as Record<Column, string | null>;
  for (const column of Object.keys(columns) as Column[]) {
    const values = rows.map(columns[column]);
    texts[column] = values.every((value) => value === "") ? null : values.join("\n");
  }
  return texts;
}

/** Writes the texts of some columns, whose parameters begin after `before` others, as a table. */
function tableOf(columns: readonly string[], before: number): string {
  return `rows from (${columns.map((_, index) => `string_to_table($${before + index + 1}::text, E'\\n')`).join(", ")})`;
}

const ENTRY_TABLE = tableOf(ENTRY_NAMES, SINGLES.length);
const CREATED_TABLE = tableOf(CREATED_NAMES, SINGLES.length + ENTRY_NAMES.length);
const CHANGED_TABLE = tableOf(CHANGED_NAMES, SINGLES.length + ENTRY_NAMES.length + CREATED_NAMES.length);
const OUTCOME_TABLE = tableOf(
  OUTCOME_NAMES,
  SINGLES.length + ENTRY_NAMES.length + CREATED_NAMES.length + CHANGED_NAMES.length,
);
const AMOUNT_TABLE = tableOf(
  AMOUNT_NAMES,
  SINGLES.length + ENTRY_NAMES.length + CREATED_NAMES.length + CHANGED_NAMES.length + OUTCOME_NAMES.length,
);
const OBSERVATION_TABLE = tableOf(
  OBSERVATION_NAMES,
  SINGLES.length +
    ENTRY_NAMES.length +
    CREATED_NAMES.length +
    CHANGED_NAMES.length +
    OUTCOME_NAMES.length +
    AMOUNT_NAMES.length,
);

// A tree of n leaves holds n minus bits(n) perfect subtrees of two leaves or more, each completed by one leaf. So leaf i
// completes 1 + bits(i) - bits(i + 1) of them, and where their roots begin follows from the sizes of the trees before.
const bits = (number: string): string => `bit_count((${number})::bit(64))`;
/** SQL of an entry's subtree hashes. */
export const SUBTREE_HASHES = `nullif(substr(${$("subtreeRoots")}::bytea,
    32 * (r.ord - 1 + ${bits(size)} - ${bits(`${size} + r.ord - 1`)})::int + 1,
    32 * (1 + ${bits(`${size} + r.ord - 1`)} - ${bits(`${size} + r.ord`)})::int), '')`;

/**
 * Appends a batch of decisions, if the log still ends where the batch was decided (compare-and-append).
 *
 * One statement, so that one round trip compares, writes and commits. The head's row is the only lock: UPDATE waits for a
 * writer on another replica, then re-evaluates its condition, matches nothing, and so nothing is inserted. The frontier is
 * compared beside the size because it identifies every entry before: a batch that was sent behind a failed one must not
 * match just because another replica appended the same number of entries.
 * Columns are texts joined by line feeds, which no id, action type or canonical JSON contains: node-postgres would quote an
 * array value by value, and the server would parse it again.
 *
 * Returns one row `{now}`, the server's clock in epoch milliseconds, or no row when another writer was first. Fails with a unique
 * violation (23505) when one of the entries exists already.
 */
export const appendEntries = {
  name: "append-entries",
  text: `with head as (
    update ledger_head
    set seq = ${size} + ${$("count")}::int, frontier = ${$("frontier")}, last_at_ms = ${$("atMs")}
    where workspace_id = ${$("workspaceId")} and seq = ${size} and frontier = ${$("expectedFrontier")}
    returning 1
  ), written as (
    insert into ledger_entry (workspace_id, seq, at_ms, leaf_hash, subtree_hashes, ${ENTRY_NAMES.join(", ")})
    select ${$("workspaceId")}, ${size} + r.ord - 1, ${$("atMs")},
      substr(${$("leafHashes")}::bytea, (r.ord::int - 1) * 32 + 1, 32), ${SUBTREE_HASHES}, ${Object.values(ENTRY).join(", ")}
    from head, ${ENTRY_TABLE} with ordinality as r (${ENTRY_NAMES.join(", ")}, ord)
  ), escalated as (
    insert into escalation (workspace_id, status, ${CREATED_NAMES.join(", ")})
    select ${$("workspaceId")}, 1, ${Object.values(CREATED).join(", ")}
    from head, ${CREATED_TABLE} as e (${CREATED_NAMES.join(", ")})
  ), changed as (
    update escalation x set
      ${Object.entries(CHANGED)
        .map(([column, value]) => `${column} = ${value}`)
        .join(",\n      ")},
      used_at_ms = case when nullif(u.used_by, '') is null then x.used_at_ms else ${$("atMs")} end
    from head, ${CHANGED_TABLE} as u (${CHANGED_NAMES.join(", ")})
    where x.workspace_id = ${$("workspaceId")} and x.escalation_id = u.escalation_id
  ), tracked as (
    insert into action_outcome (workspace_id, ${OUTCOME_NAMES.join(", ")})
    select ${$("workspaceId")}, ${Object.values(OUTCOME).join(", ")}
    from head, ${OUTCOME_TABLE} as o (${OUTCOME_NAMES.join(", ")})
    on conflict (workspace_id, decision_id) do update set status = excluded.status, due_at_ms = excluded.due_at_ms
  ), paid as (
    insert into budget_amount (workspace_id, ${AMOUNT_NAMES.join(", ")})
    select ${$("workspaceId")}, ${Object.values(AMOUNT).join(", ")}
    from head, ${AMOUNT_TABLE} as b (${AMOUNT_NAMES.join(", ")})
  ), observed as (
    insert into session_observation (workspace_id, ${OBSERVATION_STORED.join(", ")})
    select ${$("workspaceId")}, ${Object.values(OBSERVATION).join(", ")}
    from head, ${OBSERVATION_TABLE} as v (${OBSERVATION_NAMES.join(", ")})
  ), forgotten as (
    update session_observation x set digests = '', source_counts = array[0, 0, 0, 0, 0]
    from head, ${OBSERVATION_TABLE} as v (${OBSERVATION_NAMES.join(", ")})
    where x.workspace_id = ${$("workspaceId")} and x.session_id = v.session_id and x.seq = any(v.forgets::bigint[])
  )
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    case when ${$("wakeUp")}::text is not null then pg_notify('acp_log', ${$("wakeUp")}) end as notified from head`,
  /** Lists the values of the parameters. */
  values: (batch: AppendedBatch): unknown[] => [
    ...SINGLES.map((name) => batch[name]),
    ...ENTRY_NAMES.map((column) => batch.entries[column]),
    ...CREATED_NAMES.map((column) => batch.created[column]),
    ...CHANGED_NAMES.map((column) => batch.changed[column]),
    ...OUTCOME_NAMES.map((column) => batch.outcomes[column]),
    ...AMOUNT_NAMES.map((column) => batch.amounts[column]),
    ...OBSERVATION_NAMES.map((column) => batch.observations[column]),
  ],
};
