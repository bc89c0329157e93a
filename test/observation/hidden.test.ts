import { expect } from "chai";
import { ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

/** Values that stand in no action, each unlike every other text of the database. */
const marked = (index: number): readonly string[] => [
  `zz${index}quuxmark@hidden-${index}.example`,
  `https://hidden-${index}.example/zzpath${index}`,
  `/zzfolder${index}/zzfile${index}.txt`,
  `zzword${index}`,
];

/** A part of each value as a column of bytes shows it. */
const HIDDEN_BYTES = Buffer.from("hidden-").toString("hex");

/** Observations that are told at once, so that none waits for its deadline on a busy machine. */
const AT_ONCE = 50;

describe("the database after a thousand observations", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  it("holds no value that was observed.", async () => {
    const agentId = await test.agent("a");
    const sessions = await Promise.all(
      Array.from(
        { length: 10 },
        async () => (await test.authority.createSession({ agentId })).session?.sessionId ?? "",
      ),
    );
    const tell = (index: number) =>
      test.enforcement.observe({
        sessionId: sessions[index % sessions.length] ?? "",
        source: index % 2 === 0 ? ObservationSource.PROMPT : ObservationSource.RESULT,
        content: index % 3 === 0 ? JSON.stringify({ found: marked(index) }) : marked(index).join("\n"),
      });
    for (let first = 0; first < 1_000; first += AT_ONCE) {
      const told = await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => tell(first + index)));
      for (const { values } of told) expect((values?.prompt ?? 0) + (values?.untrusted ?? 0)).to.be.greaterThan(3);
    }
    const { rows } = await test.database.pool.query<{ name: string }>(
      "select table_name as name from information_schema.tables where table_schema = current_schema() and table_type = 'BASE TABLE'",
    );
    expect(rows.length).to.be.greaterThan(30);
    for (const { name } of rows) {
      const found = await test.database.pool.query(
        `select count(*)::int as rows from "${name}" t where to_jsonb(t)::text ~ 'hidden-[0-9]|zz(word|folder|file|path)[0-9]|quuxmark|${HIDDEN_BYTES}'`,
      );
      expect(found.rows[0], name).to.deep.equal({ rows: 0 });
    }
  });
});
