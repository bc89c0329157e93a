import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { Client } from "pg";
import { asking, connectStateful, type GatewayService, startGateway } from "../gateway/harness.ts";
import { startToolsServer, tool } from "../gateway/tools-server.ts";
import { until } from "../gateway/until.ts";

describe("the registration of an MCP server", () => {
  let gateway: GatewayService;
  before(async () => {
    gateway = await startGateway({ env: { ACP_WEBHOOK_ALLOW: "127.0.0.0/8" } });
  });
  after(() => gateway?.stop());

  const create = async (key: string, body: object) => {
    const response = await fetch(`${gateway.http}/v1/enforce/mcp-servers`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return [response.status, await response.text()].join(" ");
  };
  const keyOf = async (request: string, body: object): Promise<string> => {
    const { secret } = (await gateway.rest(request, body)) as unknown as { secret: string };
    return secret;
  };

  it("takes a command from an admin of the workspace `default` alone.", async () => {
    const operator = await keyOf("POST /v1/admin/keys", { name: "o", role: "operator" });
    const other = await keyOf("POST /v1/admin/workspaces", { workspace_id: "other", name: "other" });
    const agent = await keyOf("POST /v1/admin/keys", { name: "a", role: "agent", agent_id: gateway.agentId });
    const auditor = await keyOf("POST /v1/admin/keys", { name: "r", role: "auditor" });
    const command = { name: "own", command: process.execPath, args: ["--version"] };
    for (const key of [operator, other, agent, auditor]) {
      expect(await create(key, command))
        .to.match(/^403 /)
        .and.to.contain("ROLE_NOT_ALLOWED");
    }
    expect(await create(gateway.adminKey, command)).to.match(/^200 /);
    expect(await create(operator, { name: "far", url: "http://10.1.2.3/mcp" })).to.contain("TARGET_NOT_ALLOWED");
    expect(await create(operator, { name: "near", url: "http://127.0.0.1:1/mcp" })).to.match(/^200 /);
  });

  it("keeps secrets encrypted, and shows and seals their names alone.", async () => {
    const secret = "sesame-0815";
    const env = ["TOKEN", "__proto__", "constructor"].map((name) => ({ name, value: secret }));
    await gateway.add("child", { command: process.execPath }, { env });
    const { server } = await gateway.rest("GET /v1/enforce/mcp-servers/child");
    expect((server as unknown as { env_names: string[] }).env_names).to.have.members(env.map(({ name }) => name));
    await gateway.add(
      "url",
      { url: "http://127.0.0.1:1/mcp" },
      { headers: [{ name: "Authorization", value: secret }] },
    );
    const shown = JSON.stringify(await gateway.rest("GET /v1/enforce/mcp-servers"));
    expect(shown).to.contain("TOKEN").and.to.contain("authorization").and.not.to.contain(secret);
    const database = new Client({ connectionString: gateway.database.ownerUrl });
    await database.connect();
    const { rows: tables } = await database.query(
      "select table_name as name from information_schema.tables where table_schema = 'public'",
    );
    for (const { name } of tables as { name: string }[]) {
      const { rows } = await database.query(`select t::text as text from "${name}" t`);
      const bytes = Buffer.from(secret).toString("hex");
      const found = (rows as { text: string }[]).filter(({ text }) => text.includes(secret) || text.includes(bytes));
      expect(found, name).to.deep.equal([]);
    }
    await database.end();
    expect(gateway.output()).not.to.contain(secret);
  });

  it("raises `tool.changed` for a change of the description alone, and not for another order of members.", async () => {
    const heard: string[] = [];
    const receiver = createServer((request, response) => {
      let text = "";
      request.on("data", (chunk) => {
        text += chunk;
      });
      request.on("end", () => {
        heard.push(text);
        response.writeHead(200).end();
      });
    }).listen(0, "127.0.0.1");
    await once(receiver, "listening");
    const upstream = await startToolsServer([tool("pay")]);
    await gateway.add("bank", { url: upstream.url });
    const client = asking(await connectStateful(gateway.urlOf("bank"), gateway.headers));
    await client.request({ method: "tools/list" });
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    await gateway.rest("POST /v1/enforce/webhooks", { url, events: ["tool.changed"] });
    upstream.tools = [Object.fromEntries(Object.entries(tool("pay")).reverse()) as never];
    await client.request({ method: "tools/list" });
    upstream.tools = [tool("pay", { description: "pays twice" })];
    await client.request({ method: "tools/list" });
    // One of the tool and one of its definition, which are an entry each.
    await until(() => heard.length === 2);
    const data = heard.map((text) => (JSON.parse(text) as { data: Record<string, unknown> }).data);
    const versions = data.map(({ name, version, definition_version }) => ({ name, version, definition_version }));
    expect(versions).to.have.deep.members([
      { name: "bank.pay", version: 1, definition_version: undefined },
      { name: "bank.pay", version: undefined, definition_version: 2 },
    ]);
    await client.close();
    await upstream.close();
    receiver.close();
  });
});

describe("calls that wait upstream", () => {
  it("hold no connection of the database.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const gateway = await startGateway();
    cleanup.defer(async () => void (await gateway.stop()));
    const upstream = await startToolsServer([tool("pay")]);
    cleanup.defer(() => upstream.close());
    await gateway.add("bank", { url: upstream.url });
    upstream.answer = (_name, _args, signal) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve({ content: [] })));
    const client = await connectStateful(gateway.urlOf("bank"), gateway.headers);
    const calling = Array.from({ length: 60 }, (_, index) =>
      client.callTool({ name: "pay", arguments: { index } }).catch(() => undefined),
    );
    await until(() => upstream.calls.length === 60);
    const database = new Client({ connectionString: gateway.database.ownerUrl });
    await database.connect();
    cleanup.defer(() => database.end());
    const busy = async (): Promise<number> => {
      const { rows } = await database.query(
        `select count(*)::int as busy from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'`,
      );
      return (rows as { busy: number }[])[0]?.busy ?? 0;
    };
    expect(await busy()).to.equal(0);
    // More calls than the service has connections wait, and others are decided.
    for (let round = 0; round < 5; round++) {
      await gateway.rest("POST /v1/enforce/intercept", { agent_id: gateway.agentId, action_type: "read" });
    }
    await client.close();
    await Promise.all(calling);
  });
});
