import { expect } from "chai";
import type { Client } from "pg";
import { appendEntries, appendEntry, appendEscalations } from "../../src/store/sql/append-entries.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";

interface Form {
  readonly name: string;
  readonly text: string;
}

interface Values {
  readonly seq?: number;
  readonly frontier?: Buffer;
  readonly refs?: string;
  readonly subtrees?: Buffer;
  readonly id?: string;
}

const SEQ = 5;
const FRONTIER = Buffer.from("end of the log");
const FORMS: readonly Form[] = [appendEntry, appendEntries, appendEscalations];
const BODY = '{"é":"\\n"}';
const HASH = Buffer.alloc(32, 7);
// The sixth leaf of a log completes one subtree.
const SUBTREE = Buffer.alloc(32, 9);

describe("the forms of an append", () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await createTestDatabase();
    await withClient(database.url, async (client) => {
      for (const { name } of FORMS) {
        await client.query("insert into ledger_head values ($1, $2, $3, 1)", [name, SEQ, FRONTIER]);
      }
    });
  });
  afterEach(() => database.drop());

  function append(client: Client, form: Form, given: Values = {}, workspaceId = form.name) {
    const { seq = SEQ, frontier = FRONTIER, refs = "", subtrees = SUBTREE, id = "dec_1" } = given;
    const decision = [id, "agt_1", "payment.send", "1", refs];
    const values = [
      workspaceId,
      seq,
      1,
      Buffer.from("next"),
      2,
      ...decision,
      HASH,
      Buffer.from(BODY),
      subtrees,
      frontier,
    ];
    const places = form === appendEntry ? [] : ["1", String(Buffer.byteLength(BODY)), null, null, null, null];
    const others = form === appendEscalations ? [null, null, null, null, null, null, ""] : [];
    return client.query<{ now: number }>({ ...form, values: [...values, ...places, ...others] });
  }

  /** What a workspace has stored, without its own name. */
  async function stored(client: Client, workspaceId: string) {
    const table = (name: string): string =>
      `select to_jsonb(t) - 'workspace_id' as row from ${name} t where workspace_id = $1`;
    const { rows } = await client.query(`${table("ledger_entry")} union all ${table("ledger_head")}`, [workspaceId]);
    return rows.map(({ row }) => row);
  }

  for (const given of [{}, { refs: "esc_1 con_2" }]) {
    it(`store an entry ${"refs" in given ? "with" : "without"} refs alike.`, () =>
      withClient(database.url, async (client) => {
        for (const form of FORMS) {
          const { rows } = await append(client, form, given);
          expect(rows.map(({ now }) => Math.abs(now - Date.now()) < 60_000)).to.deep.equal([true]);
        }
        const [first, ...others] = await Promise.all(FORMS.map(({ name }) => stored(client, name)));
        expect(first).to.have.length(2);
        const [entry, head] = first ?? [];
        expect(entry).to.include({ seq: SEQ, body: BODY, ref_id: given.refs ?? null, decision: 1 });
        expect(entry.subtree_hashes).to.equal(`\\x${SUBTREE.toString("hex")}`);
        expect(head).to.include({ seq: SEQ + 1, last_at_ms: 2, frontier: `\\x${Buffer.from("next").toString("hex")}` });
        for (const other of others) expect(other).to.deep.equal(first);
      }));
  }

  it("store that a leaf completes no subtree alike.", () =>
    withClient(database.url, async (client) => {
      await client.query("update ledger_head set seq = 4");
      for (const form of FORMS) await append(client, form, { seq: 4, subtrees: Buffer.alloc(0) });
      const { rows } = await client.query("select subtree_hashes from ledger_entry");
      expect(rows).to.deep.equal(FORMS.map(() => ({ subtree_hashes: null })));
    }));

  for (const form of FORMS.slice(1)) {
    it(`${form.name} leaves to a pack what has no length of its own.`, () =>
      withClient(database.url, async (client) => {
        const ids = ["dec_1", "dec_2", "dec_3"];
        const same = (value: string): string => ids.map(() => value).join("\n");
        const decisions = [ids.join("\n"), same("agt_1"), same("payment.send"), same("1"), same("")];
        const bytes = [Buffer.concat([HASH, HASH, HASH]), Buffer.from(`${BODY}{}`), SUBTREE, FRONTIER];
        const length = Buffer.byteLength(BODY);
        const places = [`1\n${length + 1}\n${length + 1}`, `${length}\n0\n2`];
        const packs = [Buffer.from("firstsecond"), "0\n2", "1\n6", "5\n6"];
        const escalations = form === appendEscalations ? [null, null, null, null, null, null, ""] : [];
        const head = [form.name, SEQ, 3, Buffer.from("next"), 2];
        await client.query({ ...form, values: [...head, ...decisions, ...bytes, ...places, ...packs, ...escalations] });
        const { rows } = await client.query("select seq::int, body from ledger_entry order by seq");
        expect(rows.map(({ seq, body }) => [seq, body])).to.deep.equal([
          [SEQ, BODY],
          [SEQ + 1, null],
          [SEQ + 2, "{}"],
        ]);
        const { rows: packed } = await client.query(
          "select workspace_id, seq::int, bodies from ledger_pack order by seq",
        );
        expect(packed).to.deep.equal([
          { workspace_id: form.name, seq: SEQ, bodies: Buffer.from("first") },
          { workspace_id: form.name, seq: SEQ + 2, bodies: Buffer.from("second") },
        ]);
      }));
  }

  it("refuses a change without a body, which nothing could fold.", () =>
    withClient(database.url, async (client) => {
      const insert = `insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, leaf_hash) values ('w', 0, 0, 1, 'e', '')`;
      expect(await client.query(insert).catch(({ code }: { code: string }) => code)).to.equal("23514");
    }));

  for (const form of FORMS) {
    describe(form.name, () => {
      const elsewhere: readonly [string, Values][] = [
        ["is longer", { seq: SEQ - 1 }],
        ["is shorter", { seq: SEQ + 1 }],
        ["holds other entries", { frontier: Buffer.from("another") }],
      ];
      for (const [why, given] of elsewhere) {
        it(`writes nothing to a log that ${why}.`, () =>
          withClient(database.url, async (client) => {
            const before = await stored(client, form.name);
            expect((await append(client, form, given)).rows).to.deep.equal([]);
            expect(await stored(client, form.name)).to.deep.equal(before);
          }));
      }

      it("waits for a writer that was first, and writes nothing then.", () =>
        withClient(database.url, (first) =>
          withClient(database.url, async (second) => {
            await first.query("begin");
            await append(first, form);
            const waiting = append(second, form, { id: "dec_2" });
            await first.query("commit");
            expect((await waiting).rows).to.deep.equal([]);
            const { rows } = await first.query("select entry_id from ledger_entry");
            expect(rows).to.deep.equal([{ entry_id: "dec_1" }]);
          }),
        ));

      it("rejects a decision that exists, and writes nothing.", () =>
        withClient(database.url, async (client) => {
          await append(client, form);
          const next = { seq: SEQ + 1, frontier: Buffer.from("next"), subtrees: Buffer.alloc(0) };
          const error = await append(client, form, next).catch((cause: unknown) => cause);
          expect(error).to.include({ code: "23505" });
          expect(await stored(client, form.name)).to.have.length(2);
        }));
    });
  }
});
