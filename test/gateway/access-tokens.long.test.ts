import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { exportJWK, exportSPKI, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";
import { asking, connectStateful, type GatewayService, startGateway } from "./harness.ts";
import { startToolsServer, type ToolsServer, tool } from "./tools-server.ts";
import { until } from "./until.ts";

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;

/** An authorization server: metadata and keys. */
interface Issuer {
  readonly url: string;
  readonly keys: JWK[];
  isDown: boolean;
  close(): void;
}

async function startIssuer(): Promise<Issuer> {
  const server: Server = createServer((request, response) => {
    if (issuer.isDown) return void response.writeHead(503).end();
    const documents: Record<string, object> = {
      "/.well-known/openid-configuration": { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` },
      "/keys": { keys: issuer.keys },
    };
    const document = documents[request.url ?? ""];
    response.writeHead(document === undefined ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(document ?? {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer: Issuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    keys: [],
    isDown: false,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
  return issuer;
}

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } },
};

describe("an access token of an issuer", () => {
  let issuer: Issuer;
  let key: KeyPair;
  let gateway: GatewayService;
  let upstream: ToolsServer;
  let agentId: string;
  before(async () => {
    issuer = await startIssuer();
    key = await newKey("k1");
    upstream = await startToolsServer([tool("pay")]);
    const env = { ACP_MCP_OIDC_ISSUER: issuer.url, ACP_MCP_OIDC_AGENT_CLAIM: "agent", ACP_MCP_OIDC_SCOPE: "mcp" };
    gateway = await startGateway({ env });
    await gateway.add("bank", { url: upstream.url });
    agentId = await gateway.agent("the payer");
    await gateway.agent("twins");
    await gateway.agent("twins");
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
    issuer?.close();
  });

  async function newKey(kid: string): Promise<KeyPair> {
    const pair = await generateKeyPair("ES256", { extractable: true });
    issuer.keys.push({ ...(await exportJWK(pair.publicKey)), kid, alg: "ES256", use: "sig" });
    return pair;
  }

  const resource = () => String(gateway.urlOf("bank"));
  const sign = (claims: JWTPayload = {}, pair = key, kid = "k1") => {
    const payload = { iss: issuer.url, aud: resource(), agent: agentId, scope: "openid mcp", ...claims };
    const token = new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid }).setIssuedAt();
    return ("exp" in claims ? token : token.setExpirationTime("2m")).sign(pair.privateKey);
  };
  const open = async (token: string, headers: Record<string, string> = {}) => {
    const response = await fetch(gateway.urlOf("bank"), {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        authorization: `Bearer ${token}`,
        ...headers,
      },
      body: JSON.stringify(INITIALIZE),
    });
    const challenge = response.headers.get("www-authenticate") ?? "";
    return { status: response.status, challenge, text: await response.text() };
  };

  it("opens a session as the agent that its claim names, by id or by name.", async () => {
    for (const agent of [agentId, "the payer"]) {
      const headers = { authorization: `Bearer ${await sign({ agent })}` };
      const client = asking(await connectStateful(gateway.urlOf("bank"), headers));
      await client.request({ method: "tools/call", params: { name: "pay", arguments: {} } });
      await client.close();
      const [decisionId] = await gateway.decisionIdsOf(agentId);
      const decision = await gateway.rest(`GET /v1/enforce/decisions/${decisionId}`);
      expect(JSON.stringify(decision)).to.contain(`oidc:${agent}`);
    }
  });

  it("counts as the person who signs in as its subject, under four eyes too.", async () => {
    const callWith = async (claims: JWTPayload): Promise<string> => {
      const client = asking(
        await connectStateful(gateway.urlOf("bank"), { authorization: `Bearer ${await sign(claims)}` }),
      );
      await client.request({ method: "tools/call", params: { name: "pay", arguments: {} } });
      await client.close();
      const [decisionId] = await gateway.decisionIdsOf(agentId);
      const { receipt } = await gateway.rest(`GET /v1/enforce/decisions/${decisionId}`);
      return (receipt as unknown as { key_id: string }).key_id;
    };
    expect(await callWith({ sub: "ann|1" })).to.equal(`oidc:${issuer.url}|ann|1`);
    for (const sub of ["", " ", "a\u200b", "x".repeat(256)]) {
      const { status, text } = await open(await sign({ sub }));
      expect([status, text.includes("no subject")], text).to.deep.equal([401, true]);
    }
    // A name of an agent is none of a person.
    await gateway.agent(`${issuer.url}|ann`);
    expect((await open(await sign({ agent: `${issuer.url}|ann` }))).status).to.equal(401);
  });

  it("is told apart from what is missing: where tokens come from, which one is refused, and which scope it lacks.", async () => {
    const at = `${gateway.http}/.well-known/oauth-protected-resource/mcp/bank`;
    const none = await fetch(gateway.urlOf("bank"), { method: "POST", body: "{}" });
    expect([none.status, none.headers.get("www-authenticate")]).to.deep.equal([
      401,
      `Bearer resource_metadata="${at}"`,
    ]);
    expect(await (await fetch(at)).json()).to.deep.equal({
      resource: resource(),
      authorization_servers: [issuer.url],
      bearer_methods_supported: ["header"],
      scopes_supported: ["mcp"],
      resource_name: "Agent Control Plane",
    });
    // No name of a server shows.
    expect((await fetch(`${gateway.http}/.well-known/oauth-protected-resource/mcp/none`)).status).to.equal(200);
    const wrong = await open(await sign({ exp: 1 }));
    expect(wrong.challenge).to.equal(`Bearer error="invalid_token", resource_metadata="${at}"`);
    const narrow = await open(await sign({ scope: "openid" }));
    expect([narrow.status, narrow.challenge]).to.deep.equal([
      403,
      `Bearer error="insufficient_scope", scope="mcp", resource_metadata="${at}"`,
    ]);
    expect(narrow.text).to.contain("SCOPE_MISSING");
  });

  it("is refused when anything of it is wrong.", async () => {
    const now = Math.floor(Date.now() / 1000);
    const stranger = await generateKeyPair("ES256");
    const publicKey = new TextEncoder().encode(await exportSPKI(key.publicKey));
    const symmetric = new SignJWT({ iss: issuer.url, aud: resource(), agent: agentId, scope: "mcp", exp: now + 60 })
      .setProtectedHeader({ alg: "HS256", kid: "k1" })
      .sign(publicKey);
    const [, payload = ""] = (await sign()).split(".");
    const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}.`;
    const tokens: Readonly<Record<string, Promise<string> | string>> = {
      "of another audience": sign({ aud: "https://other.example/mcp/bank" }),
      "for another server": sign({ aud: `${gateway.http}/mcp/other` }),
      "of another issuer": sign({ iss: "https://other.example" }),
      expired: sign({ exp: now - 60 }),
      "without an end": new SignJWT({ iss: issuer.url, aud: resource(), agent: agentId, scope: "mcp" })
        .setProtectedHeader({ alg: "ES256", kid: "k1" })
        .sign(key.privateKey),
      "not valid yet": sign({ nbf: now + 600 }),
      "by a stranger's key": sign({}, stranger),
      "by the public key as a secret": symmetric,
      unsigned: unsigned,
      "for no agent": sign({ agent: "agt_none" }),
      "for two agents": sign({ agent: "twins" }),
      "without the claim": sign({ agent: undefined }),
      "with a list for an agent": sign({ agent: [agentId] }),
      changed: sign().then((token) => `${token.slice(0, -8)}AAAAAAAA`),
      huge: sign({ padding: "x".repeat(100_000) }).then((token) => token.slice(0, 15_000)),
    };
    for (const [what, token] of Object.entries(tokens)) {
      const { status, text } = await open(await token);
      expect([status, what, text].join(" ")).to.match(/^401 /);
    }
  });

  it("speaks for its own agent alone, and not from the address.", async () => {
    expect((await open(await sign(), { "x-agent-id": gateway.agentId })).text).to.contain("AGENT_NOT_ALLOWED");
    const asQuery = await fetch(`${gateway.urlOf("bank")}?access_token=${await sign()}`, {
      method: "POST",
      body: "{}",
    });
    expect(asQuery.status).to.equal(401);
  });

  it("may be signed by a key that came after the start.", async () => {
    const next = await newKey("k2");
    const token = await sign({}, next, "k2");
    await until(async () => (await open(token)).status === 200);
  });

  it("ends with its agent.", async () => {
    const gone = await gateway.agent("gone soon");
    const token = await sign({ agent: gone });
    expect((await open(token)).status).to.equal(200);
    await gateway.rest(`DELETE /v1/enforce/agents/${gone}`);
    expect((await open(token)).text).to.contain("AGENT_INACTIVE");
  });
});

describe("an access token of an issuer that is down", () => {
  it("opens nothing, and later something.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const issuer = await startIssuer();
    cleanup.defer(() => issuer.close());
    const pair = await generateKeyPair("ES256", { extractable: true });
    issuer.keys.push({ ...(await exportJWK(pair.publicKey)), kid: "k1", alg: "ES256" });
    const upstream = await startToolsServer();
    cleanup.defer(() => upstream.close());
    const gateway = await startGateway({ env: { ACP_MCP_OIDC_ISSUER: issuer.url } });
    cleanup.defer(async () => void (await gateway.stop()));
    await gateway.add("bank", { url: upstream.url });
    const claims = { iss: issuer.url, aud: String(gateway.urlOf("bank")), sub: gateway.agentId };
    const signing = new SignJWT(claims).setProtectedHeader({ alg: "ES256", kid: "k1" }).setExpirationTime("2m");
    const token = await signing.sign(pair.privateKey);
    const open = () =>
      fetch(gateway.urlOf("bank"), {
        method: "POST",
        headers: {
          authorization: `Bearer ${token}`,
          accept: "application/json, text/event-stream",
          "content-type": "application/json",
        },
        body: JSON.stringify(INITIALIZE),
      });
    issuer.isDown = true;
    const refused = await open();
    expect(refused.status).to.equal(503);
    expect(await refused.text()).to.contain("IDENTITY_UNAVAILABLE");
    issuer.isDown = false;
    await new Promise((resolve) => setTimeout(resolve, 2_100));
    expect((await open()).status).to.equal(200);
  });
});
