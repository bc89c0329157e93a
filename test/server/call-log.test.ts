import { create, type DescMessage, type DescMethod, type Message, ScalarType } from "@bufbuild/protobuf";
import { expect } from "chai";
import { SigningKeySchema } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { accessRuleOf } from "../../src/server/admission.ts";
import { CallLog, type EndedCall, isAdministrative } from "../../src/server/call-log.ts";
import { objectIdsOf, objectNamesOf } from "../../src/server/call-objects.ts";
import { WrongKeys } from "../../src/server/wrong-keys.ts";
import { METHODS } from "../conformance/methods.ts";
import { type BreakableLink, startBreakableLink } from "../support/breakable-link.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { until } from "../support/harness.ts";
import { sessionUrlOf } from "../support/pooler.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

type Line = Readonly<Record<string, unknown>>;

const SCHEMA = { type: "object", properties: { to: { type: "string" } } };

describe("the log of a service", () => {
  let database: TestDatabase;
  let link: BreakableLink;
  let service: ServedHere;

  before(async () => {
    database = await createTestDatabase();
    const url = new URL(sessionUrlOf(database.url));
    link = await startBreakableLink({ host: url.hostname, port: Number(url.port) });
    url.port = String(link.port);
    service = await serveHere({
      databaseUrl: url.href,
      env: { ACP_MCP_ALLOW: "127.0.0.0/8", ACP_WEBHOOK_ALLOW: "127.0.0.0/8" },
    });
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

  async function call(
    path: string,
    body: object,
    key = service.adminKey,
    method = "POST",
  ): Promise<Record<string, never>> {
    const headers = {
      "x-api-key": key,
      "content-type": "application/json",
      "x-request-id": `req-${path.slice(0, 26)}`,
    };
    const response = await fetch(service.http + path, { method, headers, body: JSON.stringify(body) });
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

  it("names tools, packs, MCP servers, workspaces and personal values once a call on them has succeeded", async () => {
    const before = linesOf("administrative call").length;
    const change = (method: string, path: string, body: object): Promise<unknown> =>
      call(path, body, service.adminKey, method);
    const rules = [{ type: "action", decision: "block", conditions: { match_action_types: ["mail.send"] } }];
    await call("/v1/enforce/tools", { name: "mail.send", input_schema: SCHEMA });
    await call("/api/control/enforcement/tools", { tools: ["a", "b"].map((name) => ({ name, inputSchema: SCHEMA })) });
    await change("PUT", "/v1/enforce/packs/mail", { mandates: [{ name: "no mail of Grace", rules }] });
    await call("/v1/enforce/mcp-servers", { name: "bank", url: "http://127.0.0.1:9/mcp" });
    await change("PATCH", "/v1/enforce/mcp-servers/BANK", { drift: "60" });
    await change("DELETE", "/v1/enforce/mcp-servers/bank", {});
    await call("/v1/admin/workspaces", { workspace_id: "second", name: "Grace Hopper" });
    await call("/api/redact/default/values", { values: [{ kind: "person_name", value: "Grace Hopper" }] });
    await call("/api/redact/default/webhooks", { url: "http://127.0.0.1:9/grace" });
    const lines = linesOf("administrative call").slice(before);
    const objects = lines.map((line) => line.objects as Record<string, string>);
    expect(objects.map((each) => Object.keys(each).sort())).to.deep.equal([
      ["tool"],
      ["tool"],
      ["mandate_id", "pack"],
      ["mcp_server"],
      ["mcp_server"],
      ["mcp_server"],
      ["key_id", "workspace_id"],
      ["value_id"],
      ["webhook_id"],
    ]);
    const named = objects.flatMap(
      ({ tool, pack, mcp_server, workspace_id }) => tool ?? pack ?? mcp_server ?? workspace_id,
    );
    expect(named).to.deep.equal([
      "mail.send",
      "a",
      "b",
      "mail",
      "bank",
      "bank",
      "bank",
      "second",
      undefined,
      undefined,
    ]);
    expect(service.output()).not.to.match(/grace|hopper/i);
  });

  it("leaves out names that may hold a personal value, and every name of a call that failed", async () => {
    const before = linesOf("administrative call").length;
    const names = ["Grace Hopper", "mail/grace@example.com", "pay-4111-1111-1111-1111"];
    for (const name of names) {
      const registered = await call("/v1/enforce/tools", { name, input_schema: SCHEMA });
      expect(registered.tool, name).to.include({ name });
    }
    const lines = linesOf("administrative call").slice(before);
    expect(lines).to.have.length(names.length);
    for (const line of lines) expect(line).not.to.have.property("objects");
    const failed = await call("/v1/enforce/mcp-servers/grace-hopper", {}, service.adminKey, "DELETE");
    expect(failed.error).to.include({ code: 404 });
    for (const text of ["race", "4111"]) expect(service.output()).not.to.contain(text);
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

describe("the objects of a call", () => {
  /** An id of the service, which is a valid name as well. */
  const ID = `agt_${"a".repeat(26)}`;
  /** Changes nothing, or has no object beside the workspace of the key. */
  const WITHOUT = [
    "CompileMandate",
    "UpdateNotificationSettings",
    "UpdateNotificationPreferences",
    "LinkSlackAccount",
    "PutRedactionSettings",
  ];

  /** A message with the id in each of its texts. */
  function filled(schema: DescMessage, depth = 0): Message {
    const init: Record<string, unknown> = {};
    for (const field of schema.fields) {
      if (field.fieldKind === "scalar" && field.scalar === ScalarType.STRING) init[field.localName] = ID;
      if (depth > 1 || field.oneof !== undefined) continue;
      if (field.fieldKind === "message") init[field.localName] = filled(field.message, depth + 1);
      if (field.fieldKind === "list" && field.listKind === "message") {
        init[field.localName] = [filled(field.message, depth + 1)];
      }
    }
    return create(schema, init as never);
  }

  it("are found for every administrative method that has one", () => {
    const isOfPeople = (method: DescMethod): boolean => isAdministrative({ access: accessRuleOf(method) });
    const without = METHODS.filter(isOfPeople).filter(({ input, output }) => {
      const objects = {
        ...objectIdsOf(input, filled(input)),
        ...objectNamesOf(input, filled(input)),
        ...objectIdsOf(output, filled(output)),
        ...objectNamesOf(output, filled(output)),
      };
      return Object.keys(objects).every(
        (kind) => kind === "workspace_id" && !/Workspace$/.test(output.fields[0]?.message?.name ?? ""),
      );
    });
    expect(without.map(({ name }) => name)).to.deep.equal(WITHOUT);
  });

  it("are of the key set by its thumbprint", () => {
    const keyId = "qoCAx0eSwZEUPkpmfpe6JPPh-6-6-k6aXMAF8vzSXzA";
    const message = create(SigningKeySchema, { keyId });
    expect(objectNamesOf(SigningKeySchema, message)).to.deep.equal({ key_id: keyId });
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

  it("name a person by issuer and subject, and one whose subject is an address by its digest", () => {
    const lines: Line[] = [];
    const write = (details: object): void => void lines.push(details as Line);
    const log = new CallLog({ info: write, warn: write });
    for (const subject of ["110169484474386276334", "grace@example.com"]) {
      log.ended(endedCall("10.0.0.1", `oidc:https://login.example.com|${subject}`), "PERMISSION_DENIED");
    }
    expect(lines.map(({ keyId }) => keyId)).to.deep.equal([
      "oidc:https://login.example.com|110169484474386276334",
      // `printf %s grace@example.com | sha256sum`
      "oidc:https://login.example.com|sha256:b533d4547eaa5a0fa955965a1ca393ccd2ea013032a105726f232eb41bddc4fa",
    ]);
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
