import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { Client } from "pg";
import { asking, connectStateful, connectStateless, type GatewayService, startGateway } from "../gateway/harness.ts";
import { startToolsServer, type ToolsServer, tool } from "../gateway/tools-server.ts";

const SECRET = "Bearer sesame-0815";
const SERVERS = "/v1/enforce/mcp-servers";

interface Updated {
  readonly server: {
    readonly url: string;
    readonly header_names: string[];
    readonly mode: string;
    readonly revision: string;
  };
  readonly dropped_headers: string[];
  readonly quarantined: number;
}

describe("a new origin of an MCP server's URL", () => {
  let gateway: GatewayService;
  let bank: ToolsServer;
  let evil: ToolsServer;
  let operator: string;
  let auditor: string;
  let database: Client;
  before(async () => {
    bank = await startToolsServer([tool("pay"), tool("read")]);
    evil = await startToolsServer([tool("pay"), tool("read")]);
    gateway = await startGateway();
    const keyOf = async (role: string): Promise<string> =>
      ((await gateway.rest("POST /v1/admin/keys", { name: role, role })) as unknown as { secret: string }).secret;
    operator = await keyOf("operator");
    auditor = await keyOf("auditor");
    database = new Client({ connectionString: gateway.database.ownerUrl });
    await database.connect();
  });
  after(async () => {
    await database?.end();
    await gateway?.stop();
    await bank?.close();
    await evil?.close();
  });
  beforeEach(async () => {
    evil.headers.length = 0;
    bank.headers.length = 0;
  });

  /** Registers a server with a stored secret; gives its name. */
  let count = 0;
  const register = async (mode: "open" | "quarantine" = "open", url = bank.url): Promise<string> => {
    const name = `bank-${++count}`;
    await gateway.add(
      name,
      { url },
      {
        mode,
        headers: [
          { name: "Authorization", value: SECRET },
          { name: "X-Tenant", value: "t-4711" },
        ],
      },
    );
    return name;
  };
  /** Calls the service as the operator who attacks. */
  const rest = async (request: string, body?: object, key = operator): Promise<{ status: number; text: string }> => {
    const [method = "", path = ""] = request.split(" ");
    const init = { method, headers: { "x-api-key": key, "content-type": "application/json" } };
    const response = await fetch(
      gateway.http + path,
      body === undefined ? init : { ...init, body: JSON.stringify(body) },
    );
    return { status: response.status, text: await response.text() };
  };
  const update = async (name: string, body: object): Promise<Updated> => {
    const { status, text } = await rest(`PATCH ${SERVERS}/${name}`, body);
    expect(status, text).to.equal(200);
    return JSON.parse(text) as Updated;
  };
  const refresh = (name: string) => rest(`POST ${SERVERS}/${name}:refresh`, {});
  const secretsAt = ({ headers }: ToolsServer): string[] =>
    headers.flatMap((each) => [...each.values()]).filter((value) => value.includes("sesame") || value.includes("4711"));
  const toolsOf = async (name: string) => {
    const { tools } = (await gateway.rest(`GET ${SERVERS}/${name}/tools`)) as unknown as {
      tools: { name: string; status: string }[];
    };
    return tools.map((each) => `${each.name} ${each.status}`);
  };

  it("drops the stored headers, and says which.", async () => {
    const name = await register();
    const { server, dropped_headers } = await update(name, { url: evil.url });
    expect([server.header_names, dropped_headers]).to.deep.equal([[], ["authorization", "x-tenant"]]);
    expect((await refresh(name)).status).to.equal(200);
    expect(evil.headers).not.to.have.length(0);
    expect(secretsAt(evil)).to.deep.equal([]);
    // Going back does not bring them back.
    await update(name, { url: bank.url, mode: "open" });
    await refresh(name);
    expect(bank.headers).not.to.have.length(0);
    expect(secretsAt(bank)).to.deep.equal([]);
  });

  it("keeps no header but those that the same update gives.", async () => {
    const name = await register();
    const headers = [{ name: "AUTHORIZATION", value: "Bearer other" }];
    const { server, dropped_headers } = await update(name, { url: evil.url, headers });
    expect([server.header_names, dropped_headers]).to.deep.equal([["authorization"], ["x-tenant"]]);
    await refresh(name);
    expect(evil.headers.every((each) => each.get("authorization") === "Bearer other")).to.equal(true);
    expect(secretsAt(evil)).to.deep.equal([]);
  });

  it("sends nothing that was stored to clients' calls either, of sessions old and new.", async () => {
    const name = await register();
    const stateful = asking(await connectStateful(gateway.urlOf(name), gateway.headers));
    const stateless = asking(await connectStateless(gateway.urlOf(name), gateway.headers));
    const pay = { method: "tools/call", params: { name: "pay", arguments: {} } };
    await Promise.all([stateful.request(pay), stateless.request(pay)]);
    expect(secretsAt(bank)).not.to.have.length(0);
    await update(name, { url: evil.url, mode: "open" });
    for (const old of [stateful, stateless]) await old.request(pay).catch(() => undefined);
    for (const connect of [connectStateful, connectStateless]) {
      const client = asking(await connect(gateway.urlOf(name), gateway.headers));
      await client.request(pay);
      await client.close();
    }
    expect(evil.calls).not.to.have.length(0);
    expect(secretsAt(evil)).to.deep.equal([]);
    await Promise.all([stateful.close(), stateless.close()].map((closed) => closed.catch(() => undefined)));
  });

  for (const spelling of ["case", "address", "credentials"] as const) {
    it(`is found behind another spelling of the URL (${spelling}).`, async () => {
      const name = await register();
      const { host, port } = new URL(evil.url);
      const urls = {
        case: `HTTP://${host}/mcp`,
        address: `http://127.1:${port}/mcp`,
        credentials: `http://${new URL(bank.url).host}@${host}/mcp`,
      };
      const { status, text } = await rest(`PATCH ${SERVERS}/${name}`, { url: urls[spelling] });
      expect([status === 200 ? (JSON.parse(text) as Updated).dropped_headers.length : status]).to.deep.equal([
        spelling === "credentials" ? 400 : 2,
      ]);
      await refresh(name);
      expect(secretsAt(evil)).to.deep.equal([]);
    });
  }

  it("is none for another path, query or spelling of the same one.", async () => {
    const name = await register("quarantine");
    await refresh(name);
    await update(name, {});
    await gateway.rest(`POST ${SERVERS}/${name}/tools/pay:accept`, { version: 1 });
    const { port } = new URL(bank.url);
    for (const url of [
      `http://127.0.0.1:${port}/mcp?tenant=1`,
      `http://127.0.0.1:${port}/other/mcp`,
      `HTTP://127.1:${port}/mcp`,
    ]) {
      const { server, dropped_headers, quarantined } = await update(name, { url });
      expect([server.header_names, dropped_headers, quarantined]).to.deep.equal([["authorization", "x-tenant"], [], 0]);
      expect(await toolsOf(name)).to.deep.equal(["pay active", "read quarantined"]);
    }
    await refresh(name);
    expect(secretsAt(bank)).not.to.have.length(0);
  });

  it("is not reached by a redirect of the old one.", async () => {
    const redirecting = createServer((_request, response) => {
      response.writeHead(status, { location: evil.url, "content-type": "application/json" }).end("{}");
    });
    let status = 307;
    await listening(redirecting);
    const name = await register("open", urlOf(redirecting));
    for (status of [301, 302, 303, 307, 308]) {
      await update(name, { url: `${urlOf(redirecting)}?${status}` });
      expect((await refresh(name)).text).to.contain("MCP_UPSTREAM_UNAVAILABLE");
      for (const connect of [connectStateful, connectStateless]) {
        await connect(gateway.urlOf(name), gateway.headers).then(
          (client) => client.close(),
          () => undefined,
        );
      }
    }
    expect(evil.headers).to.have.length(0);
    redirecting.close();
  });

  it("changes nothing when the update fails: refused, or half-way in the database.", async () => {
    const name = await register();
    await refresh(name);
    const read = async () => (await gateway.rest(`GET ${SERVERS}/${name}`)) as unknown as Updated;
    const before = await read();
    const refusals = [
      { url: evil.url, headers: [{ name: "X-A", value: "a\nb" }] },
      { url: evil.url, scrub: ["shoe_size"] },
      { url: evil.url, drift: "never" },
      { url: "http://10.1.2.3/mcp" },
      { url: "not a url" },
    ];
    for (const body of refusals) expect((await rest(`PATCH ${SERVERS}/${name}`, body)).status).to.equal(400);
    await database.query(`
      create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
      create trigger refuse before insert on ledger_entry for each row when (new.body like '%mcp_server_updated%') execute function refuse()`);
    try {
      expect((await rest(`PATCH ${SERVERS}/${name}`, { url: evil.url })).status).to.be.at.least(500);
    } finally {
      await database.query("drop trigger refuse on ledger_entry; drop function refuse()");
    }
    expect(await read()).to.deep.equal(before);
    expect(await toolsOf(name)).to.deep.equal(["pay active", "read active"]);
    await refresh(name);
    expect(secretsAt(evil)).to.deep.equal([]);
    expect(evil.headers).to.have.length(0);
    expect(secretsAt(bank)).not.to.have.length(0);
  });

  it("returns accepted definitions to quarantine: a model reads none of them until a person accepts it again.", async () => {
    const name = await register("quarantine");
    await refresh(name);
    for (const each of ["pay", "read"])
      await gateway.rest(`POST ${SERVERS}/${name}/tools/${each}:accept`, { version: 1 });
    expect(await toolsOf(name)).to.deep.equal(["pay active", "read active"]);
    const { quarantined } = await update(name, { url: evil.url });
    expect(quarantined).to.equal(2);
    expect(await toolsOf(name)).to.deep.equal(["pay quarantined", "read quarantined"]);
    const client = asking(await connectStateful(gateway.urlOf(name), gateway.headers));
    expect(await client.request({ method: "tools/list" })).to.deep.include({ tools: [] });
    const calls = evil.calls.length;
    const refused = await client.request({ method: "tools/call", params: { name: "pay", arguments: {} } });
    expect(JSON.stringify(refused)).to.contain("TOOL_QUARANTINED");
    expect(evil.calls).to.have.length(calls);
    await gateway.rest(`POST ${SERVERS}/${name}/tools/pay:accept`, { version: 1 });
    await client.request({ method: "tools/call", params: { name: "pay", arguments: {} } });
    expect(evil.calls).to.have.length(calls + 1);
    await client.close();
  });

  it("puts an open server into quarantine too, unless the update itself says `open`.", async () => {
    const name = await register("open");
    await refresh(name);
    const moved = await update(name, { url: evil.url });
    expect([moved.server.mode, moved.quarantined]).to.deep.equal(["quarantine", 2]);
    expect(await toolsOf(name)).to.deep.equal(["pay quarantined", "read quarantined"]);
    const other = await register("open");
    await refresh(other);
    const stays = await update(other, { url: evil.url, mode: "open" });
    expect([stays.server.mode, stays.quarantined, stays.server.header_names]).to.deep.equal(["open", 0, []]);
    expect(await toolsOf(other)).to.deep.equal(["pay active", "read active"]);
  });

  it("is in the log, with the names of what was dropped and without any value.", async () => {
    const name = await register("quarantine");
    await refresh(name);
    await gateway.rest(`POST ${SERVERS}/${name}/tools/pay:accept`, { version: 1 });
    await update(name, { url: evil.url });
    const { rows } = await database.query(
      "select body::text as body from ledger_entry where body like '%mcp_server_updated%' order by seq desc limit 1",
    );
    const { mcp_server, new_origin } = JSON.parse((rows as { body: string }[])[0]?.body ?? "{}") as Record<
      string,
      object
    >;
    expect(new_origin).to.deep.equal({ dropped_headers: ["authorization", "x-tenant"], quarantined: 1 });
    expect(mcp_server).to.deep.include({ name, url: evil.url, header_names: [] });
  });

  it("is shown to auditors, as arguments are, without what may be a secret; the log holds no such part.", async () => {
    const url = `${bank.url}/s/c2VzYW1l4711?token=sesame-query`;
    await gateway.add("masked", { url });
    const args = ["-y", "--token=sesame-arg", "postgres://me:sesame-db@db/x"];
    await gateway.add("child", { command: process.execPath, args });
    await update("masked", { drift: "60" });
    const shownTo = async (key: string) => {
      const answers = [`${SERVERS}/masked`, `${SERVERS}/child`, `${SERVERS}?page_size=500`].map((path) =>
        rest(`GET ${path}`, undefined, key),
      );
      return (await Promise.all(answers)).map(({ text }) => text);
    };
    const [masked = "", child = "", list = ""] = await shownTo(auditor);
    expect(masked).to.contain(`${bank.url}/s/***?***`);
    const argsIn = (text: string) => (JSON.parse(text) as { server: { args: string[] } }).server.args;
    expect(argsIn(child)).to.deep.equal(["-y", "--token=***", "***"]);
    expect(masked + child + list)
      .not.to.contain("sesame")
      .and.not.to.contain("c2VzYW1l4711");
    const [own = "", ownChild = ""] = await shownTo(operator);
    expect(own).to.contain(url);
    expect(argsIn(ownChild)).to.deep.equal(args);
    await gateway.rest(`DELETE ${SERVERS}/masked`);
    const { rows } = await database.query("select coalesce(string_agg(body::text, '\n'), '') as log from ledger_entry");
    const { log } = (rows as { log: string }[])[0] ?? { log: "" };
    expect(log).to.contain("--token=***").and.to.contain("/s/***?***");
    expect(log).not.to.contain("sesame").and.not.to.contain("c2VzYW1l4711");
    expect(gateway.output()).not.to.contain("sesame").and.not.to.contain("c2VzYW1l4711");
  });
});

async function listening(server: Server): Promise<void> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
}

const urlOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;

describe("a new origin of a workspace's `llm_url`", () => {
  it("drops the stored key, and a path on the same origin keeps it.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const gateway = await startGateway({ env: { ACP_WEBHOOK_ALLOW: "127.0.0.0/8" } });
    cleanup.defer(async () => void (await gateway.stop()));
    const asked: (readonly [path: string, authorization: string | undefined])[] = [];
    const models = await Promise.all(
      [0, 1].map(async () => {
        const server = createServer((request: IncomingMessage, response) => {
          asked.push([request.url ?? "", request.headers.authorization]);
          response
            .writeHead(200, { "content-type": "application/json" })
            .end(JSON.stringify({ object: "list", data: [] }));
        });
        await listening(server);
        cleanup.defer(async () => void server.close());
        return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      }),
    );
    const [own = "", evil = ""] = models;
    const path = "PUT /api/redact/default/settings";
    const put = async (body: object) =>
      (await gateway.rest(path, body)) as unknown as { settings: { has_llm_key: boolean }; llm_key_dropped: boolean };
    const ask = () => gateway.rest("GET /api/redact/default/openai/v1/models");
    await put({ llm_url: `${own}/v1`, llm_key: "sk-sesame" });
    const steps = [
      [`${own}/v1`, true],
      [`${own}/other/v1`, true],
      [`${own.replace("http", "HTTP")}/v1`, true],
      [`${evil}/v1`, false],
      [`${own}/v1`, false],
    ] as const;
    for (const [llm_url, has_llm_key] of steps) {
      const { settings, llm_key_dropped } = await put({ llm_url });
      expect([settings.has_llm_key, llm_key_dropped], llm_url).to.deep.equal([has_llm_key, llm_url.startsWith(evil)]);
      await ask();
    }
    const sent = asked.map(([, authorization]) => authorization);
    expect(sent).to.deep.equal(["Bearer sk-sesame", "Bearer sk-sesame", "Bearer sk-sesame", undefined, undefined]);
    // Without an address in between there is none to which it could be kept.
    await put({ llm_url: `${own}/v1`, llm_key: "sk-sesame" });
    expect((await put({})).llm_key_dropped).to.equal(true);
    expect((await put({ llm_url: `${evil}/v1` })).settings.has_llm_key).to.equal(false);
  });
});
