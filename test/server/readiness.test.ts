import { expect } from "chai";
import { Readiness } from "../../src/server/readiness.ts";
import { type BreakableLink, startBreakableLink } from "../support/breakable-link.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { failureOf, reasonOf, until } from "../support/harness.ts";
import { sessionUrlOf } from "../support/pooler.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

const SERVING = { health: { serving: true } };
const never = (): Promise<never> => new Promise(() => undefined);

describe("readiness", () => {
  it("fails with the reason when the database gives no answer in time", async () => {
    const readiness = new Readiness({ ...SERVING, ping: never, maxMs: 5 });
    const failure = await failureOf(readiness.check());
    expect(failure.message).to.equal("the database does not answer: it gave no answer within 5 ms");
    expect(await reasonOf(readiness.check())).to.equal("STORE_UNAVAILABLE");
  });

  it("asks the database once for any number of checks at the same time, and again later", async () => {
    let asked = 0;
    const answer = Promise.withResolvers<void>();
    const ping = (): Promise<void> => {
      asked += 1;
      return answer.promise;
    };
    const readiness = new Readiness({ ...SERVING, ping });
    const checks = Array.from({ length: 100 }, () => readiness.check());
    answer.resolve();
    await Promise.all(checks);
    expect(asked).to.equal(1);
    await readiness.check();
    expect(asked).to.equal(2);
  });

  it("does not ask the database while the process stops", async () => {
    const readiness = new Readiness({ health: { serving: false }, ping: () => Promise.reject(new Error("asked")) });
    expect(await reasonOf(readiness.check())).to.equal("SHUTTING_DOWN");
  });

  it("tells nothing of the fault but that there is one", async () => {
    const ping = (): Promise<never> => Promise.reject(new Error("connect ECONNREFUSED 10.1.2.3:5432"));
    const failure = await failureOf(new Readiness({ ...SERVING, ping }).check());
    expect(failure.message).to.not.contain("10.1.2.3");
  });
});

describe("/readyz", () => {
  let database: TestDatabase;
  let link: BreakableLink;
  let service: ServedHere;

  before(async () => {
    database = await createTestDatabase();
    const url = new URL(sessionUrlOf(database.url));
    link = await startBreakableLink({ host: url.hostname, port: Number(url.port) });
    url.port = String(link.port);
    service = await serveHere({ databaseUrl: url.href });
  });
  after(async () => {
    link.mend();
    await service.stop();
    await link.close();
    await database.drop();
  });

  const ready = (): Promise<Response> => fetch(`${service.http}/readyz`);

  it("is 503 with the reason while the database is away, and 200 again afterwards", async () => {
    expect((await ready()).status).to.equal(200);
    link.break();
    const refused = await ready();
    expect([refused.status, refused.headers.get("retry-after")]).to.deep.equal([503, "1"]);
    const { error } = (await refused.json()) as { error: { message: string; details: { reason: string }[] } };
    expect(error.details[0]?.reason).to.equal("STORE_UNAVAILABLE");
    expect(error.message).to.equal("the database does not answer: it cannot be reached, or is starting");
    expect((await fetch(`${service.http}/healthz`)).status).to.equal(200);
    link.mend();
    await until(async () => (await ready()).status === 200);
  });
});
