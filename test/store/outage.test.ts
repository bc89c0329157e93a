import { expect } from "chai";
import { OutageWatch } from "../../src/store/outage.ts";
import { until } from "../support/harness.ts";

interface Line {
  readonly level: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A watch on a database that a test takes away, and everything that is logged. */
function watchOf(): {
  watch: OutageWatch;
  lines: Line[];
  log: ConstructorParameters<typeof OutageWatch>[0]["log"] & Parameters<OutageWatch["quieten"]>[0];
  database: { isAway: boolean; asked: number };
} {
  const lines: Line[] = [];
  const write =
    (level: string) =>
    (details: object, message: string): void =>
      void lines.push({ level, details: details as Line["details"], message });
  const log = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  const database = { isAway: false, asked: 0 };
  const ping = async (): Promise<void> => {
    database.asked += 1;
    if (database.isAway) throw new Error("connect ECONNREFUSED");
  };
  return { watch: new OutageWatch({ ping, log, retryMs: 1 }), lines, log, database };
}

describe("an outage of the database", () => {
  it("is one line when it begins and one with its length when it ends, however many calls fail", async () => {
    const { watch, lines, database } = watchOf();
    database.isAway = true;
    const found = await Promise.all(Array.from({ length: 1_000 }, (_, index) => watch.suspect(`call ${index}`)));
    expect(new Set(found)).to.deep.equal(new Set([true]));
    expect(database.asked).to.be.below(100);
    database.isAway = false;
    await until(() => !watch.isAway);
    expect(lines.map(({ level, message }) => [level, message])).to.deep.equal([
      ["error", "the database is away; calls are refused until it answers"],
      ["info", "the database answers again"],
    ]);
    expect(lines[0]?.details).to.deep.equal({ reason: "call 0" });
    expect(lines[1]?.details.away_ms).to.be.a("number");
  });

  it("is not supposed of a database that answers", async () => {
    const { watch, lines } = watchOf();
    expect(await watch.suspect("a lock was not released in time")).to.equal(false);
    expect(lines).to.deep.equal([]);
  });

  it("counts from a question that stays without an answer", async () => {
    const watch = new OutageWatch({
      ping: () => new Promise(() => undefined),
      log: { info: () => undefined, error: () => undefined },
      maxMs: 1,
    });
    expect(await watch.suspect("a call failed")).to.equal(true);
    watch.close();
  });

  it("quietens the parts that go on by themselves, and no others", async () => {
    const { watch, lines, log, database } = watchOf();
    const quiet = watch.quieten(log);
    quiet.warn({ id: 1 }, "a receiver does not answer");
    await until(() => lines.length === 1);
    expect(lines[0]).to.deep.equal({ level: "warn", details: { id: 1 }, message: "a receiver does not answer" });
    database.isAway = true;
    for (let count = 0; count < 100; count++) quiet.warn({}, "cannot renew the leases of webhooks");
    await until(() => lines.length === 102);
    expect(lines.filter(({ level }) => level === "debug")).to.have.length(100);
    expect(lines.filter(({ level }) => level === "warn")).to.have.length(1);
    watch.close();
  });
});
