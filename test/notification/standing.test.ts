import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { mayAnswer, mayBeTold, roleOf } from "../../src/notification/standing.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase } from "../support/database.ts";
import { directUrlOf } from "../support/pooler.ts";

const NOW_MS = 1_700_000_000_000;
const INSERT = `insert into person (workspace_id, issuer, subject, role, group_role, deactivated_at_ms, left_at_ms, checked_at_ms)
  values ('default', 'https://login.example.com', $1, $2, $3, $4, $5, 0)`;
const INSERT_KEY = `insert into api_key (key_id, workspace_id, name, role, prefix, secret_hash, created_at_ms, ended_with_agent, owner)
  values ($1, 'default', 'a key', $2, '', sha256(convert_to($1, 'UTF8')), 0, false, $3)`;

describe("a person who was signed in once", () => {
  let test: TestDatabase;
  let database: Database;
  before(async () => {
    test = await createTestDatabase();
    database = await openDatabase({
      url: test.url,
      directUrl: directUrlOf(test.url),
      poolSize: 2,
      log: SILENT_LOG,
    });
  });
  after(async () => {
    await database.close();
    await test.drop();
  });

  const CASES = [
    { who: "an operator by an admin", role: Role.OPERATOR, groupRole: null, isTold: true },
    { who: "an operator by groups", role: null, groupRole: Role.OPERATOR, isTold: true },
    {
      who: "an admin by groups whom an admin made an auditor",
      role: Role.AUDITOR,
      groupRole: Role.ADMIN,
      isTold: false,
    },
    {
      who: "an auditor by groups whom an admin made an operator",
      role: Role.OPERATOR,
      groupRole: Role.AUDITOR,
      isTold: true,
    },
    { who: "someone who lost every group", role: null, groupRole: null, isTold: false },
    { who: "a deactivated admin", role: Role.ADMIN, groupRole: null, isTold: false, deactivatedAtMs: NOW_MS - 1 },
    {
      who: "an admin whom the issuer no longer knows",
      role: Role.ADMIN,
      groupRole: null,
      isTold: false,
      leftAtMs: NOW_MS - 1,
    },
  ];
  for (const { who, role, groupRole, isTold, deactivatedAtMs = null, leftAtMs = null } of CASES) {
    it(`is ${isTold ? "told" : "not told"} as ${who}, and so is a key of theirs.`, async () => {
      const subject = who.replaceAll(" ", "-");
      await database.pool.query(INSERT, [subject, role, groupRole, deactivatedAtMs, leftAtMs]);
      const holder = `oidc:https://login.example.com|${subject}`;
      expect(await mayBeTold(database.pool, "default", holder, NOW_MS)).to.equal(isTold);
      await database.pool.query(INSERT_KEY, [`key_${subject}`, Role.OPERATOR, holder]);
      expect(await mayBeTold(database.pool, "default", `key_${subject}`, NOW_MS)).to.equal(isTold);
      expect(mayAnswer(await roleOf(database.pool, "default", `key_${subject}`, NOW_MS))).to.equal(isTold);
    });
  }

  it("is not told where nobody knows them.", async () => {
    const holder = "oidc:https://login.example.com|nobody";
    expect(await mayBeTold(database.pool, "default", holder, NOW_MS)).to.equal(false);
  });
});
