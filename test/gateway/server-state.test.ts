import { expect } from "chai";
import { type DefinitionsServer, startDefinitionsServer } from "./definitions-server.ts";
import { connectStateful, type GatewayService, startGateway } from "./harness.ts";
import { startToolsServer, tool } from "./tools-server.ts";

interface Shown {
  readonly name: string;
  readonly new_definitions: number;
  readonly changed_definitions: number;
  readonly away: { readonly since: string; readonly last_attempt_at: string; readonly reason: string } | null;
}

describe("the state of an MCP server in the list", () => {
  let gateway: GatewayService;
  let upstream: DefinitionsServer;
  before(async () => {
    gateway = await startGateway();
    upstream = await startDefinitionsServer({
      "tools/list": [tool("pay"), tool("read")],
      "prompts/list": [{ name: "greet" }],
    });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  const shown = async (name: string): Promise<Shown> => {
    const { servers } = (await gateway.rest("GET /v1/enforce/mcp-servers")) as unknown as { servers: Shown[] };
    const { server } = (await gateway.rest(`GET /v1/enforce/mcp-servers/${name}`)) as unknown as { server: Shown };
    expect(servers.find((each) => each.name === name)).to.deep.equal(server);
    return server;
  };
  const waiting = async (name: string): Promise<readonly number[]> => {
    const { new_definitions, changed_definitions } = await shown(name);
    return [new_definitions, changed_definitions];
  };
  const refresh = (name: string) => gateway.rest(`POST /v1/enforce/mcp-servers/${name}:refresh`, {});
  const fails = async (name: string) =>
    expect(await refresh(name).catch((error: Error) => error.message)).to.contain("MCP_UPSTREAM_UNAVAILABLE");

  it("counts the definitions that wait for a person: new ones, and changes of accepted ones.", async () => {
    await gateway.add("bank", { url: upstream.url }, { mode: "quarantine" });
    expect(await waiting("bank")).to.deep.equal([0, 0]);
    await refresh("bank");
    expect(await waiting("bank")).to.deep.equal([3, 0]);
    const accept = (version: number) => gateway.rest("POST /v1/enforce/mcp-servers/bank/tools/pay:accept", { version });
    await accept(1);
    expect(await waiting("bank")).to.deep.equal([2, 0]);
    const pay = (description: string) => [tool("pay", { description }), tool("read")];
    upstream.lists["tools/list"] = pay("pays twice");
    await refresh("bank");
    upstream.lists["tools/list"] = pay("pays three times");
    await refresh("bank");
    expect(await waiting("bank")).to.deep.equal([2, 1]);
    await accept(3);
    expect(await waiting("bank")).to.deep.equal([2, 0]);
  });

  it("counts nothing where new and changed definitions are in force at once.", async () => {
    await gateway.add("open", { url: upstream.url }, { mode: "open" });
    await refresh("open");
    upstream.lists["tools/list"] = [tool("pay", { description: "pays" })];
    await refresh("open");
    expect(await waiting("open")).to.deep.equal([0, 0]);
  });

  it("says since when and why a server does not answer, until it lists its definitions again.", async () => {
    const server = await startToolsServer([tool("pay")]);
    await gateway.add("gone", { url: server.url });
    expect((await shown("gone")).away).to.equal(null);
    await server.close();
    await fails("gone");
    const first = (await shown("gone")).away;
    expect(first?.reason).to.equal("cannot be reached");
    await fails("gone");
    const second = (await shown("gone")).away;
    expect(second?.since).to.equal(first?.since);
    expect(Date.parse(second?.last_attempt_at ?? "")).to.be.at.least(Date.parse(first?.last_attempt_at ?? ""));
    await gateway.rest("PATCH /v1/enforce/mcp-servers/gone", { url: upstream.url });
    expect((await shown("gone")).away).to.equal(null);
    await refresh("gone");
    expect((await shown("gone")).away).to.equal(null);
  });

  it("notices it when an agent's client cannot open a session, too.", async () => {
    const server = await startToolsServer([tool("pay")]);
    await gateway.add("silent", { url: server.url });
    await server.close();
    await connectStateful(gateway.urlOf("silent"), gateway.headers).then(
      () => expect.fail("a session was opened"),
      () => undefined,
    );
    expect((await shown("silent")).away?.reason).to.equal("cannot be reached");
  });

  it("forgets the failure once a listing for a client succeeds.", async () => {
    const server = await startDefinitionsServer({ "tools/list": [tool("pay")] });
    await gateway.add("back", { url: server.url });
    server.answer = ({ method }) => (method === "tools/list" ? { tools: "none" } : undefined);
    await fails("back");
    expect((await shown("back")).away?.reason).to.equal("did not return a list of its tools");
    server.answer = undefined;
    const client = await connectStateful(gateway.urlOf("back"), gateway.headers);
    await client.callTool({ name: "pay", arguments: {} });
    expect((await shown("back")).away).to.equal(null);
    await client.close();
    await server.close();
  });
});
