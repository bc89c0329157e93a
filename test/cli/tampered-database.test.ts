import { expect } from "chai";
import type { Client } from "pg";
import { naiveLeaf, naiveTree } from "../log/naive-tree.ts";
import { withClient } from "../support/database.ts";
import { serveHere } from "../support/served-here.ts";
import { agentctl } from "./harness.ts";
import { type Served, startServed } from "./served.ts";
import { newKey } from "./written-log.ts";

/** The entry that is tampered with; every entry of the log was sealed by itself. */
const AT = 12;
/** Entries of the log: four of the start, an agent and its decisions. */
const SIZE = 28;

/** The key of every service on the database: another one would be sealed first. */
const SIGNING_KEY = newKey().privateKey.export({ type: "pkcs8", format: "pem" }).toString();

/** What somebody with all rights does to the table, behind the service's back. */
const CHANGES: readonly {
  readonly what: string;
  readonly sql: readonly string[];
  readonly fault: string;
  readonly index: number;
}[] = [
  {
    what: "changed a body",
    sql: [`update ledger_entry set body = replace(body, '"decision":"allow"', '"decision":"block"') where seq = ${AT}`],
    fault: "leaf_hash",
    index: AT,
  },
  {
    what: "changed a body and its hash",
    sql: [
      `update ledger_entry set body = replace(body, '"decision":"allow"', '"decision":"block"') where seq = ${AT}`,
      `update ledger_entry set leaf_hash = sha256('\\x00'::bytea || convert_to(body, 'UTF8')) where seq = ${AT}`,
    ],
    fault: "previous_root",
    index: AT,
  },
  {
    what: "changed a hash",
    sql: [`update ledger_entry set leaf_hash = sha256('x') where seq = ${AT}`],
    fault: "leaf_hash",
    index: AT,
  },
  {
    what: "emptied a body",
    sql: [`update ledger_entry set body = '' where seq = ${AT}`],
    fault: "leaf_hash",
    index: AT,
  },
  { what: "removed an entry", sql: [`delete from ledger_entry where seq = ${AT}`], fault: "order", index: AT },
  {
    what: "removed an entry and closed the gap",
    sql: [
      `delete from ledger_entry where seq = ${AT}`,
      `update ledger_entry set seq = -seq where seq > ${AT}`,
      "update ledger_entry set seq = -seq - 1 where seq < 0",
    ],
    fault: "order",
    index: AT,
  },
  {
    what: "swapped two entries",
    sql: [
      `update ledger_entry set seq = -1 where seq = ${AT}`,
      `update ledger_entry set seq = ${AT} where seq = ${AT + 3}`,
      `update ledger_entry set seq = ${AT + 3} where seq = -1`,
    ],
    fault: "order",
    index: AT,
  },
  {
    what: "put an entry in",
    sql: [
      `update ledger_entry set seq = -seq where seq >= ${AT}`,
      "update ledger_entry set seq = -seq + 1 where seq < 0",
      `insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, leaf_hash, body)
        select workspace_id, ${AT}, at_ms, kind, 'put_in', agent_id, action_type, decision, leaf_hash, body
        from ledger_entry where seq = ${AT - 1}`,
      // A row beyond the log would be taken for what another process appended.
      `delete from ledger_entry where seq = ${SIZE}`,
    ],
    fault: "order",
    index: AT,
  },
  { what: "cut off the end", sql: ["delete from ledger_entry where seq >= 20"], fault: "order", index: 20 },
];

async function unprotected(client: Client, statements: readonly string[]): Promise<void> {
  await client.query("alter table ledger_entry disable trigger all");
  for (const statement of statements) await client.query(statement);
  await client.query("alter table ledger_entry enable always trigger insert_only");
}

describe("agentctl vault verify, on a database that was tampered with", () => {
  let served: Served;
  let kept: string;

  const asSuperuser = (...statements: string[]): Promise<void> =>
    withClient(served.database.ownerUrl, (client) => unprotected(client, statements));

  before(async () => {
    served = await startServed({ env: { ACP_SIGNING_KEY: SIGNING_KEY } });
    const agentId = await served.agent();
    for (let count = 5; count <= SIZE; count++) await served.intercept(agentId);
    await withClient(served.database.ownerUrl, (client) =>
      client.query("create table untouched as table ledger_entry"),
    );
    kept = served.folder.path("checkpoint");
    const { code, stdout } = await served.agentctl("vault", "verify", "--keep-checkpoint", kept);
    expect(code, stdout).to.equal(0);
  });
  after(() => served?.stop());
  afterEach(() => asSuperuser("delete from ledger_entry", "insert into ledger_entry table untouched"));

  for (const { what, sql, fault, index } of CHANGES) {
    it(`names the first bad entry when somebody ${what}.`, async () => {
      await asSuperuser(...sql);
      const { code, stdout, json } = await served.agentctl("vault", "verify", "--json");
      expect(code, stdout).to.equal(1);
      expect(json(), stdout).to.include({ verified: false, fault, index });
      const exported = served.folder.path("tampered");
      if ((await served.agentctl("vault", "export", "--out", exported)).code !== 0) return;
      const offline = await agentctl(["vault", "verify", exported, "--json"]);
      expect(offline.json(), offline.stdout).to.include({ verified: false, fault, index });
    });
  }

  it("verifies once the table is as it was.", async () => {
    const { code, stdout, stderr } = await served.agentctl("vault", "verify", "--checkpoint", kept);
    expect(code, stdout + stderr).to.equal(0);
  });

  it("tells by an earlier checkpoint that the end, and the head with it, was cut off.", async () => {
    const { rows } = await withClient(served.database.ownerUrl, (client) =>
      client.query<{ body: string }>("select body from ledger_entry where seq < 16 order by seq"),
    );
    const frontier = naiveTree(rows.map(({ body }) => naiveLeaf(body))).root();
    const saved = "create table head as table ledger_head";
    await asSuperuser(saved, "delete from ledger_entry where seq >= 16");
    await withClient(served.database.ownerUrl, (client) =>
      client.query("update ledger_head set seq = 16, frontier = $1", [frontier]),
    );
    const other = await serveHere({
      databaseUrl: served.database.url,
      env: { ACP_ADMIN_KEY: served.adminKey, ACP_SIGNING_KEY: SIGNING_KEY },
    });
    try {
      const argv = ["vault", "verify", "--url", other.http, "--json"];
      const env = { AGENTCTL_KEY: other.adminKey };
      const blind = await agentctl(argv, env);
      expect(blind.code, blind.stdout).to.equal(0);
      const jwks = await served.folder.file(
        "jwks.json",
        await (await fetch(`${other.http}/.well-known/jwks.json`)).text(),
      );
      const seeing = await agentctl([...argv, "--jwks", jwks, "--checkpoint", kept], env);
      expect(seeing.code, seeing.stdout).to.equal(1);
      expect(seeing.json()).to.include({ fault: "truncated", index: 16, last_index: SIZE - 1 });
    } finally {
      await other.stop();
      await asSuperuser("delete from ledger_head", "insert into ledger_head table head");
    }
  });
});
