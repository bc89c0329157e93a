import { expect } from "chai";
import { Client } from "pg";
import { digestOf, type JsonObject } from "../../src/tree/canonical.ts";
import { startDefinitionsServer } from "../gateway/definitions-server.ts";
import { type GatewayService, startGateway } from "../gateway/harness.ts";
import { type ListedTool, tool } from "../gateway/tools-server.ts";

type Shown = { version: number; changes: string[]; accepted_by: string | null };
type Tools = { tools: { name: string; active: Shown | null; pending: Shown | null }[] };

const EXTRA = {
  icons: [{ src: "https://bank.example/pay.png" }],
  execution: { taskSupport: "forbidden" },
  _meta: { "bank.example/risk": "high" },
};

describe("definitions that were accepted before whole definitions were pinned", () => {
  let gateway: GatewayService;
  before(async () => {
    gateway = await startGateway();
  });
  after(() => gateway?.stop());

  /** Stores a version as the version of the service before did: through its table, which is a view now. */
  const store = async (server: string, definition: ListedTool, accepted: boolean) => {
    const values = [server, definition.name, JSON.stringify(definition), digestOf(definition as JsonObject)];
    const database = new Client({ connectionString: gateway.database.ownerUrl });
    await database.connect();
    const [by, at] = accepted ? ["'key_old'", "5"] : ["null", "null"];
    await database.query(
      `insert into mcp_tool (workspace_id, server, name, version, definition, digest, first_seen_at_ms, accepted_by, accepted_at_ms)
        values ('default', $1, $2, 1, $3, $4, 1, ${by}, ${at})`,
      values,
    );
    await database.end();
  };

  it("stay accepted in quarantine, with what was not pinned, until they change.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startDefinitionsServer({
      "tools/list": [tool("fuller", EXTRA), tool("plain"), tool("changed", { description: "tells evil.example" })],
    });
    cleanup.defer(() => upstream.close());
    for (const name of ["fuller", "plain", "changed"]) await store("old", tool(name), true);
    await gateway.add("old", { url: upstream.url }, { mode: "quarantine" });
    const read = async () => {
      await gateway.rest("POST /v1/enforce/mcp-servers/old:refresh", {});
      const { tools } = (await gateway.rest("GET /v1/enforce/mcp-servers/old/tools")) as unknown as Tools;
      return Object.fromEntries(
        tools.map(({ name, active, pending }) => [name, [active?.version ?? 0, pending?.version ?? 0]]),
      );
    };
    expect(await read()).to.deep.equal({ fuller: [2, 0], plain: [1, 0], changed: [1, 2] });
    expect(await read()).to.deep.equal({ fuller: [2, 0], plain: [1, 0], changed: [1, 2] });
    const { tools } = (await gateway.rest("GET /v1/enforce/mcp-servers/old/tools")) as unknown as Tools;
    const fuller = tools.find(({ name }) => name === "fuller")?.active;
    expect(fuller?.accepted_by).to.equal("key_old");
    expect(fuller?.changes.map((line) => line.split(":")[0])).to.have.members(["icons", "execution", "_meta"]);
    // Once only: what is added later waits.
    upstream.lists["tools/list"] = [tool("fuller", { ...EXTRA, _meta: {} }), tool("plain", { _meta: { a: 1 } })];
    expect(await read()).to.deep.equal({ fuller: [2, 3], plain: [1, 2], changed: [1, 2] });
  });

  it("wait with what was not pinned if nobody had accepted them, also if the shorter one is accepted.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startDefinitionsServer({ "tools/list": [tool("fuller", EXTRA)] });
    cleanup.defer(() => upstream.close());
    await store("waiting", tool("fuller"), false);
    await gateway.add("waiting", { url: upstream.url }, { mode: "quarantine" });
    await gateway.rest("POST /v1/enforce/mcp-servers/waiting/tools/fuller:accept", { version: 1 });
    await gateway.rest("POST /v1/enforce/mcp-servers/waiting:refresh", {});
    const { tools } = (await gateway.rest("GET /v1/enforce/mcp-servers/waiting/tools")) as unknown as Tools;
    expect([tools[0]?.active?.version, tools[0]?.pending?.version]).to.deep.equal([1, 2]);
  });

  it("are the same in both generations, of which the later does not list `execution`.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startDefinitionsServer({ "tools/list": [tool("pay", EXTRA)] });
    cleanup.defer(() => upstream.close());
    await gateway.add("both", { url: upstream.url }, { mode: "quarantine" });
    const refresh = () => gateway.rest("POST /v1/enforce/mcp-servers/both:refresh", {});
    await refresh();
    await gateway.rest("POST /v1/enforce/mcp-servers/both/tools/pay:accept", { version: 1 });
    const { execution: _, ...stateless } = EXTRA;
    upstream.lists["tools/list"] = [tool("pay", stateless)];
    expect(await refresh()).to.include({ active: 1, quarantined: 0 });
    upstream.lists["tools/list"] = [tool("pay", EXTRA)];
    expect(await refresh()).to.include({ active: 1, quarantined: 0 });
    upstream.lists["tools/list"] = [tool("pay", { ...EXTRA, execution: { taskSupport: "required" } })];
    expect(await refresh()).to.include({ active: 0, quarantined: 1 });
  });
});

describe("definitions that change at every listing", () => {
  let gateway: GatewayService;
  before(async () => {
    gateway = await startGateway();
  });
  after(() => gateway?.stop());

  const versionsOf = async (server: string): Promise<number[]> => {
    await using cleanup = new AsyncDisposableStack();
    const database = new Client({ connectionString: gateway.database.ownerUrl });
    await database.connect();
    cleanup.defer(() => database.end());
    const text = "select version from mcp_definition where server = $1 and name = 'pay' order by version";
    return (await database.query<{ version: number }>(text, [server])).rows.map(({ version }) => version);
  };
  const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

  for (const mode of ["quarantine", "open"] as const) {
    it(`keep their newest versions and the accepted ones, in \`${mode}\`.`, async () => {
      await using cleanup = new AsyncDisposableStack();
      const upstream = await startDefinitionsServer({ "tools/list": [tool("pay", { description: "1" })] });
      cleanup.defer(() => upstream.close());
      await gateway.add(mode, { url: upstream.url }, { mode });
      const change = async (count: number) => {
        upstream.lists["tools/list"] = [tool("pay", { description: String(count) })];
        await gateway.rest(`POST /v1/enforce/mcp-servers/${mode}:refresh`, {});
      };
      for (const count of from(1, 3)) await change(count);
      if (mode === "quarantine")
        await gateway.rest("POST /v1/enforce/mcp-servers/quarantine/tools/pay:accept", { version: 3 });
      for (const count of from(4, 27)) await change(count);
      expect(await versionsOf(mode)).to.deep.equal(
        mode === "quarantine" ? [1, 3, ...from(8, 27)] : [1, ...from(8, 27)],
      );
      const { tools } = (await gateway.rest(`GET /v1/enforce/mcp-servers/${mode}/tools`)) as unknown as Tools;
      const shown = [tools[0]?.active?.version, tools[0]?.pending?.version];
      expect(shown).to.deep.equal(mode === "quarantine" ? [3, 27] : [27, undefined]);
    });
  }
});
