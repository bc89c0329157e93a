import { expect } from "chai";
import { CallLog, type EndedCall } from "../../src/server/call-log.ts";
import { WrongKeys } from "../../src/server/wrong-keys.ts";
import { type BreakableLink, startBreakableLink } from "../support/breakable-link.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { until } from "../support/harness.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

type Line = Readonly<Record<string, unknown>>;

describe("the log of a service", () => {
  let database: TestDatabase;
  let link: BreakableLink;
  let service: ServedHere;

  before(async () => {
    database = await createTestDatabase();
    const url = new URL(database.url);
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

  const linesOf = (message: string): Line[] =>
    service
      .output()
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Line)
      .filter(({ msg }) => msg === message);

  async function call(path: string, body: object, key = service.adminKey): Promise<Record<string, never>> {
    const headers = { "x-api-key": key, "content-type": "application/json", "x-request-id": `req-${path}` };
    const response = await fetch(service.http + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as Record<string, never>;
  }

  it("tells who did what from where, by ids alone, for each administrative call", async () => {
    const made = await call("/v1/enforce/agents", { name: "Grace Hopper", description: "grace@example.com" });
    const { agent_id } = made.agent as unknown as { agent_id: string };
    const { secret } = (await call("/v1/admin/keys", { name: "key of Grace", role: "auditor" })) as unknown as {
      secret: string;
    };
    const [line, ofKey] = linesOf("administrative call");
    const { key_id } = (ofKey as unknown as { objects: { key_id: string } }).objects;
    expect(line).to.deep.include({
      level: "info",
      workspaceId: "default",
      method: "agentcontrol.v1.AgentService/RegisterAgent",
      objects: { agent_id },
      code: "OK",
      wire: "rest",
      address: "127.0.0.1",
      requestId: "req-/v1/enforce/agents",
    });
    expect(line?.keyId).to.match(/^key_[a-z2-7]{26}$/);
    expect(key_id).to.match(/^key_/);
    for (const text of ["Grace", "grace@example.com", secret, service.adminKey]) {
      expect(service.output()).not.to.contain(text);
    }

    await call("/v1/enforce/agents", { name: "Ada Lovelace" }, secret);
    const refused = linesOf("refused call");
    expect(refused).to.have.length(1);
    expect(refused[0]).to.deep.include({
      level: "warn",
      keyId: key_id,
      method: "agentcontrol.v1.AgentService/RegisterAgent",
      code: "PERMISSION_DENIED",
      address: "127.0.0.1",
    });
    expect(service.output()).not.to.contain("Ada");
  });

  it("does not tell of decisions, which are in the log of their workspace, nor of what is only read", async () => {
    const before = service.output().length;
    await call("/v1/enforce/intercept", { agent_id: "agt_none", action_type: "note.write" });
    await fetch(`${service.http}/v1/enforce/agents`, { headers: { "x-api-key": service.adminKey } });
    expect(service.output().slice(before)).to.equal("");
  });

  it("tells an outage of the database once, however many calls fail, and once that it is over", async () => {
    link.break();
    const failed = await Promise.all(
      Array.from({ length: 40 }, (_, index) => call("/v1/enforce/agents", { name: `agent ${index}` })),
    );
    for (const { error } of failed) expect((error as unknown as { code: number }).code).to.equal(503);
    await Promise.all(Array.from({ length: 20 }, () => fetch(`${service.http}/.well-known/jwks.json`)));
    await until(() => linesOf("the database is away; calls are refused until it answers").length === 1);
    link.mend();
    await until(() => linesOf("the database answers again").length === 1);
    const [over] = linesOf("the database answers again");
    expect(over?.away_ms).to.be.a("number");
    expect(linesOf("the database is away; calls are refused until it answers")).to.have.length(1);
    expect(linesOf("call failed")).to.deep.equal([]);
    expect(linesOf("http request failed")).to.deep.equal([]);
    expect(linesOf("cannot listen for wake-ups")).to.deep.equal([]);
  });
});

describe("lines on refused calls", () => {
  const endedCall = (address: string, keyId?: string): EndedCall =>
    ({
      endpoint: { name: "a.B/C", access: { mask: 0xff } },
      incoming: { wire: "rest", address, requestId: "r" },
      caller: keyId === undefined ? undefined : { keyId, workspaceId: "default" },
      objects: {},
    }) as unknown as EndedCall;

  it("come twenty at once and then one every ten seconds for a key, and say how many were left out", () => {
    const lines: Line[] = [];
    const write = (details: object): void => void lines.push(details as Line);
    let now = 0;
    const log = new CallLog({ info: write, warn: write }, () => now);
    for (let count = 0; count < 1_000; count++) log.ended(endedCall("10.0.0.1", "key_a"), "PERMISSION_DENIED");
    expect(lines).to.have.length(20);
    now += 10_000;
    for (let count = 0; count < 1_000; count++) log.ended(endedCall("10.0.0.1", "key_a"), "PERMISSION_DENIED");
    expect(lines).to.have.length(21);
    expect(lines.at(-1)?.unlogged).to.equal(980);
  });

  it("are bounded for all keys and addresses together", () => {
    let count = 0;
    const write = (): void => {
      count += 1;
    };
    const log = new CallLog({ info: write, warn: write }, () => 0);
    for (let index = 0; index < 5_000; index++)
      log.ended(endedCall(`10.0.${index >> 8}.${index & 255}`), "UNAUTHENTICATED");
    expect(count).to.equal(200);
    count = 0;
    const wrongKeys = new WrongKeys({ info: write, warn: write }, () => 0);
    for (let index = 0; index < 5_000; index++) {
      const address = `10.1.${index >> 8}.${index & 255}`;
      wrongKeys.refusal({ address, requestId: "r", method: "a.B/C" });
    }
    expect(count).to.equal(200);
  });

  it("leave out calls that fail for another reason", () => {
    const log = new CallLog({ info: () => expect.fail("logged"), warn: () => expect.fail("logged") });
    for (const code of ["OK", "NOT_FOUND", "INVALID_ARGUMENT", "UNAVAILABLE", "INTERNAL"]) {
      log.ended(endedCall("10.0.0.1", "key_a"), code);
    }
  });
});
