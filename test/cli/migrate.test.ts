import { expect } from "chai";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";
import { poolerSettingsOf } from "../support/pooler.ts";
import { agentctl, type Run } from "./harness.ts";

const COUNT = MIGRATIONS.length;

describe("agentctl migrate", () => {
  let database: TestDatabase;
  let env: Record<string, string>;

  before(async () => {
    database = await createTestDatabase([]);
    env = { DATABASE_URL: database.url, ...poolerSettingsOf(database.url), ACP_DATABASE_OWNER_URL: database.ownerUrl };
  });
  after(() => database.drop());

  const migrate = (word: "status" | "up", ...options: string[]): Promise<Run> =>
    agentctl(["migrate", word, ...options], env);
  const asOwner = (text: string) => withClient(database.ownerUrl, (client) => client.query(text));

  it("tells what an empty database lacks, and changes nothing", async () => {
    for (const _ of [1, 2]) {
      const { code, stdout } = await migrate("status");
      expect([code, stdout.split("\n")[0]]).to.deep.equal([
        1,
        `BEHIND: ${COUNT} migrations are pending; run \`agentctl migrate up\``,
      ]);
      expect(stdout).to.contain(`  pending  ${MIGRATIONS[0]?.name}\n`);
    }
    const { rows } = await asOwner("select to_regclass('ledger_entry') as found");
    expect(rows[0].found).to.equal(null);
  });

  it("brings it to the version of the program, grants the login that serves its rights, and may run again", async () => {
    const first = await migrate("up", "--json");
    expect([first.code, (first.json().applied as string[]).length]).to.deep.equal([0, COUNT]);
    expect((await migrate("up")).stdout).to.equal("UP TO DATE: nothing was pending\n");
    expect((await migrate("status", "--json")).json()).to.deep.include({ pending: [], unknown: [], up_to_date: true });
    const { rows } = await withClient(database.url, (client) => client.query("select count(*)::int from ledger_entry"));
    expect(rows).to.deep.equal([{ count: 0 }]);
  });

  it("leaves a database of a newer version as it is", async () => {
    await asOwner("insert into schema_migration (name) values ('9999-from-the-future')");
    const status = await migrate("status");
    expect(status.code).to.equal(1);
    expect(status.stdout)
      .to.match(/^NEWER: .*\n/)
      .and.contain("  newer    9999-from-the-future\n");
    const up = await migrate("up");
    expect(up.code).to.equal(2);
    expect(up.stderr).to.contain("is of a newer version, which applied `9999-from-the-future`");
    await asOwner("delete from schema_migration where name = '9999-from-the-future'");
  });

  it("says what is missing, and never a password", async () => {
    const none = await agentctl(["migrate", "up"], {});
    expect([none.code, none.stderr]).to.deep.equal([
      2,
      "agentctl: DATABASE_URL must be set; the embedded PostgreSQL is migrated by each start of the service\n",
    ]);
    const wrong = new URL(database.ownerUrl);
    wrong.password = "hunter2-hunter2";
    const refused = await agentctl(["migrate", "status"], { ...env, ACP_DATABASE_OWNER_URL: wrong.href });
    expect(refused.code).to.equal(2);
    expect(refused.stderr).to.contain("refuses the connection").and.not.contain("hunter2");
    const faulty = await agentctl(["migrate", "status"], { ...env, ACP_WORKERS: "many" });
    expect(faulty.stderr).to.contain("ACP_WORKERS must be a whole number");
  });
});
