import { expect } from "chai";
import type { Client } from "pg";
import { type AppendedBatch, appendEntries } from "../../src/store/sql/append-entries.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";

interface Values {
  readonly seq?: number;
  readonly frontier?: Buffer;
  readonly refs?: string;
  readonly subtrees?: Buffer;
  readonly id?: string;
  readonly session?: string;
  readonly principal?: string;
}

const WORKSPACE = "default";
const SEQ = 5;
const FRONTIER = Buffer.from("end of the log");
const NEXT = Buffer.from("next");
const BODY = '{"é":"\\n"}';
const HASH = Buffer.alloc(32, 7);
// The sixth leaf of a log completes one subtree.
const SUBTREE = Buffer.alloc(32, 9);

/** Rows of escalations, outcomes and amounts that a batch creates and changes, by column. */
interface OtherRows {
  readonly outcomes?: Partial<AppendedBatch["outcomes"]>;
  readonly created?: Partial<AppendedBatch["created"]>;
  readonly changed?: Partial<AppendedBatch["changed"]>;
  readonly amounts?: Partial<AppendedBatch["amounts"]>;
  readonly wakeUp?: string;
}

const NOTHING_CREATED = {
  escalation_id: null,
  agent_id: null,
  action_digest: null,
  created_seq: null,
  expires_at_ms: null,
  asked: null,
  asked_by: null,
  updated_seq: null,
  needs: null,
  remind_at_ms: null,
};
const NOTHING_CHANGED = {
  escalation_id: null,
  used_by: null,
  replaced_by: null,
  asked: null,
  asked_by: null,
  updated_seq: null,
  needs: null,
  remind_at_ms: null,
};

const NOTHING_TRACKED = { decision_id: null, decision_seq: null, agent_id: null, status: null, due_at_ms: null };
const NOTHING_OBSERVED = {
  session_id: null,
  seq: null,
  observation_id: null,
  kind: null,
  tool: null,
  values_digest: null,
  digests: null,
  source_counts: null,
  is_full: null,
  forgets: null,
};
const NOTHING_PAID = {
  pot: null,
  at_ms: null,
  decision_seq: null,
  seq: null,
  state: null,
  agent_id: null,
  principal_id: null,
  millionths: null,
};

function append(client: Client, given: Values = {}, others: OtherRows = {}) {
  const { created, changed, outcomes, amounts, wakeUp } = others;
  const { seq = SEQ, frontier = FRONTIER, refs = "", subtrees = SUBTREE, id = "dec_1" } = given;
  const { session = null, principal = null } = given;
  const { name, text } = appendEntries;
  const values = appendEntries.values({
    workspaceId: WORKSPACE,
    expectedSize: seq,
    count: 1,
    expectedFrontier: frontier,
    frontier: NEXT,
    atMs: 2,
    leafHashes: HASH,
    subtreeRoots: subtrees,
    wakeUp: wakeUp ?? null,
    entries: {
      entry_id: id,
      kind: "0",
      agent_id: "agt_1",
      principal_id: principal,
      action_type: "payment.send",
      decision: "1",
      ref_id: refs,
      session_id: session,
      body: BODY,
    },
    created: { ...NOTHING_CREATED, ...created },
    amounts: { ...NOTHING_PAID, ...amounts },
    changed: { ...NOTHING_CHANGED, ...changed },
    outcomes: { ...NOTHING_TRACKED, ...outcomes },
    observations: NOTHING_OBSERVED,
  });
  return client.query<{ now: number }>({ name, text, values });
}

async function rowsOf(client: Client, table: string): Promise<Record<string, unknown>[]> {
  const { rows } = await client.query(`select to_jsonb(t) - 'workspace_id' as row from ${table} t`);
  return rows.map(({ row }) => row);
}

describe("the statement that appends decisions", () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await createTestDatabase();
    await withClient(database.url, (client) =>
      client.query("insert into ledger_head values ($1, $2, $3, 1)", [WORKSPACE, SEQ, FRONTIER]),
    );
  });
  afterEach(() => database.drop());

  for (const refs of ["", "esc_1 con_2"]) {
    it(`stores an entry ${refs === "" ? "without" : "with"} refs and moves the head.`, () =>
      withClient(database.url, async (client) => {
        const { rows } = await append(client, { refs });
        expect(rows.map(({ now }) => Math.abs(now - Date.now()) < 60_000)).to.deep.equal([true]);
        const [entry] = await rowsOf(client, "ledger_entry");
        expect(entry).to.include({ seq: SEQ, body: BODY, ref_id: refs === "" ? null : refs, decision: 1 });
        expect(entry?.subtree_hashes).to.equal(`\\x${SUBTREE.toString("hex")}`);
        const [head] = await rowsOf(client, "ledger_head");
        expect(head).to.include({ seq: SEQ + 1, last_at_ms: 2, frontier: `\\x${NEXT.toString("hex")}` });
      }));
  }

  for (const principal of ["agt_2", "", undefined]) {
    it(`stores ${principal === undefined ? "no" : `"${principal}" as the`} principal.`, () =>
      withClient(database.url, async (client) => {
        await append(client, principal === undefined ? {} : { principal });
        expect((await rowsOf(client, "ledger_entry"))[0]?.principal_id).to.equal(
          principal === "agt_2" ? principal : null,
        );
      }));
  }

  for (const session of ["ses_1", "", undefined]) {
    it(`stores ${session === undefined ? "no" : `"${session}" as the`} session.`, () =>
      withClient(database.url, async (client) => {
        await append(client, session === undefined ? {} : { session });
        expect((await rowsOf(client, "ledger_entry"))[0]?.session_id).to.equal(session === "ses_1" ? session : null);
      }));
  }

  it("stores null where a leaf completes no subtree.", () =>
    withClient(database.url, async (client) => {
      await client.query("update ledger_head set seq = 4");
      await append(client, { seq: 4, subtrees: Buffer.alloc(0) });
      expect((await rowsOf(client, "ledger_entry"))[0]?.subtree_hashes).to.equal(null);
    }));

  it("creates escalations, uses up approvals and wakes other replicas.", () =>
    withClient(database.url, (listener) =>
      withClient(database.url, async (client) => {
        const heard: (string | undefined)[] = [];
        await listener.query("listen acp_log");
        listener.on("notification", ({ payload }) => heard.push(payload));
        const created = {
          escalation_id: "esc_1",
          agent_id: "agt_1",
          action_digest: "digest",
          created_seq: "0",
          expires_at_ms: "99",
          asked: "2",
          asked_by: '["key_b","oidc:doe, jane"]',
          updated_seq: "0",
        };
        await append(client, {}, { created, wakeUp: "default 6 decisions" });
        const next = { seq: SEQ + 1, frontier: NEXT, subtrees: Buffer.alloc(0), id: "dec_2" };
        const changed = {
          escalation_id: "esc_1",
          used_by: "dec_2",
          replaced_by: "esc_9",
          asked: "1",
          asked_by: '["key_c","key_a","key_b"]',
          updated_seq: "0",
        };
        await append(client, next, { changed, wakeUp: "default 7 decisions" });
        const [escalation] = await rowsOf(client, "escalation");
        expect(escalation).to.deep.include({
          escalation_id: "esc_1",
          created_seq: SEQ,
          status: 1,
          expires_at_ms: 99,
          updated_seq: SEQ + 1,
          asked: 3,
          asked_by: ["key_a", "key_b", "key_c", "oidc:doe, jane"],
          used_by: "dec_2",
          used_at_ms: 2,
          replaced_by: "esc_9",
        });
        await listener.query("select 1");
        expect(heard).to.deep.equal(["default 6 decisions", "default 7 decisions"]);
      }),
    ));

  it("leaves alone what an earlier escalation has and a batch does not change.", () =>
    withClient(database.url, async (client) => {
      const created = {
        escalation_id: "esc_1\nesc_2",
        agent_id: "agt_1\nagt_2",
        action_digest: "one\ntwo",
        created_seq: "0\n0",
        expires_at_ms: "99\n99",
        asked: "1\n1",
        asked_by: '["key_a"]\n["key_a"]',
      };
      await append(client, {}, { created });
      const next = { seq: SEQ + 1, frontier: NEXT, subtrees: Buffer.alloc(0), id: "dec_2" };
      const changed = {
        escalation_id: "esc_1\nesc_2",
        used_by: "dec_2\n",
        asked: "0\n1",
        asked_by: '[]\n["key_b"]',
        updated_seq: "\n0",
      };
      await append(client, next, { changed });
      const rows = await rowsOf(client, "escalation");
      const [one, two] = rows.sort((a, b) => String(a.escalation_id).localeCompare(String(b.escalation_id)));
      expect(one).to.deep.include({ used_by: "dec_2", asked: 1, asked_by: ["key_a"], updated_seq: null });
      expect(two).to.deep.include({ used_by: null, used_at_ms: null, asked: 2, asked_by: ["key_a", "key_b"] });
      expect(two).to.deep.include({ updated_seq: SEQ + 1, replaced_by: null });
    }));

  it("stores amounts in the pots of budgets, with a principal or without.", () =>
    withClient(database.url, async (client) => {
      const amounts = {
        pot: "p\nq",
        at_ms: "2\n1",
        decision_seq: "5\n3",
        seq: "5\n5",
        state: "1\n2",
        agent_id: "agt_1\nagt_1",
        principal_id: "agt_2\n",
        millionths: "8200000\n-5",
      };
      await append(client, {}, { amounts });
      const rows = await rowsOf(client, "budget_amount");
      const agent = { agent_id: "agt_1", seq: 5 };
      expect(rows).to.have.deep.members([
        { ...agent, pot: "p", at_ms: 2, decision_seq: 5, state: 1, principal_id: "agt_2", millionths: 8_200_000 },
        { ...agent, pot: "q", at_ms: 1, decision_seq: 3, state: 2, principal_id: null, millionths: -5 },
      ]);
    }));

  const elsewhere: readonly [string, Values][] = [
    ["is longer", { seq: SEQ - 1 }],
    ["is shorter", { seq: SEQ + 1 }],
    ["holds other entries", { frontier: Buffer.from("another") }],
  ];
  for (const [why, given] of elsewhere) {
    it(`writes nothing to a log that ${why}.`, () =>
      withClient(database.url, async (client) => {
        const before = await rowsOf(client, "ledger_head");
        expect((await append(client, given)).rows).to.deep.equal([]);
        expect([await rowsOf(client, "ledger_head"), await rowsOf(client, "ledger_entry")]).to.deep.equal([before, []]);
      }));
  }

  it("waits for a writer that was first, and writes nothing then.", () =>
    withClient(database.url, (first) =>
      withClient(database.url, async (second) => {
        await first.query("begin");
        await append(first);
        const waiting = append(second, { id: "dec_2" });
        await first.query("commit");
        expect((await waiting).rows).to.deep.equal([]);
        expect((await rowsOf(first, "ledger_entry")).map(({ entry_id }) => entry_id)).to.deep.equal(["dec_1"]);
      }),
    ));

  it("rejects a decision that exists, and writes nothing.", () =>
    withClient(database.url, async (client) => {
      await append(client);
      const before = await rowsOf(client, "ledger_head");
      const next = { seq: SEQ + 1, frontier: NEXT, subtrees: Buffer.alloc(0) };
      expect(await append(client, next).catch((cause: unknown) => cause)).to.include({ code: "23505" });
      expect(await rowsOf(client, "ledger_head")).to.deep.equal(before);
    }));
});
