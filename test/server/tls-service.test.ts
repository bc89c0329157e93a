import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as http2Connect, type IncomingHttpHeaders } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { createAuthority } from "../support/certificates.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

const ROOT = join(import.meta.dirname, "../..");
const AUTHORITY = createAuthority();

interface Reply {
  readonly headers: IncomingHttpHeaders & { ":status"?: number };
  readonly body: string;
}

describe("a service with a certificate", () => {
  let database: TestDatabase;
  let service: ServedHere;
  let folder: string;

  before(async () => {
    database = await createTestDatabase();
    folder = await mkdtemp(join(tmpdir(), "acp-tls-"));
    const { cert, key } = AUTHORITY.issue();
    const files = { ACP_TLS_CERT: cert, ACP_TLS_KEY: key };
    for (const [name, text] of Object.entries({ ...files, authority: AUTHORITY.cert })) {
      await writeFile(join(folder, name), text);
    }
    const env = Object.fromEntries(Object.keys(files).map((name) => [name, join(folder, name)]));
    service = await serveHere({ databaseUrl: database.url, env });
  });
  after(async () => {
    await service.stop();
    await database.drop();
    await rm(folder, { recursive: true });
  });

  /** Sends a request over HTTP/2, as browsers do. */
  async function send(method: string, path: string, headers: Record<string, string>, body?: object): Promise<Reply> {
    const session = http2Connect(service.http, { ca: AUTHORITY.cert });
    const sent = { ":method": method, ":path": path, "content-type": "application/json", ...headers };
    const stream = session.request(sent, { endStream: body === undefined });
    if (body !== undefined) stream.end(JSON.stringify(body));
    const answered = new Promise<Reply["headers"]>((resolve, reject) => {
      stream.once("response", resolve);
      stream.once("error", reject);
    });
    let text = "";
    for await (const chunk of stream.setEncoding("utf8")) text += chunk;
    session.close();
    return { headers: await answered, body: text };
  }

  it("says https in its address.", () => {
    expect(service.http).to.match(/^https:\/\/127\.0\.0\.1:\d+$/);
  });

  it("signs a browser in with a cookie that no page without TLS can set.", async () => {
    const { headers, body } = await send(
      "POST",
      "/dashboard/sign-in",
      { origin: service.http },
      { key: service.adminKey },
    );
    expect(headers[":status"], body).to.equal(200);
    const [cookie = ""] = headers["set-cookie"] ?? [];
    expect(cookie).to.match(/^__Host-acp_sign_in=acps_[a-z2-7]+; Path=\/; HttpOnly; SameSite=Strict; Secure; Max-Age=/);
    const token = String(JSON.parse(body).csrf_token);
    const [pair = ""] = cookie.split(";");
    const listed = await send("GET", "/v1/enforce/agents", { cookie: pair, "x-csrf-token": token });
    expect(listed.headers[":status"]).to.equal(200);
    const plain = await send("GET", "/v1/enforce/agents", {
      cookie: pair.replace("__Host-", ""),
      "x-csrf-token": token,
    });
    expect(plain.headers[":status"]).to.equal(401);
  });

  it("refuses a sign-in from a page of another origin over HTTP/2.", async () => {
    const { headers } = await send(
      "POST",
      "/dashboard/sign-in",
      { origin: "https://evil.test" },
      { key: service.adminKey },
    );
    expect(headers[":status"]).to.equal(403);
  });

  it("serves the gateway's rules of origin over HTTP/2.", async () => {
    const call = (more: Record<string, string>) =>
      send("POST", "/mcp/none", { "x-api-key": service.adminKey, ...more }, {});
    expect((await call({ origin: "https://evil.test" })).body).to.contain("ORIGIN_NOT_ALLOWED");
    expect((await call({ ":authority": "evil.test" })).body).to.contain("ORIGIN_NOT_ALLOWED");
    expect((await call({ origin: service.http })).body).not.to.contain("ORIGIN_NOT_ALLOWED");
  });

  it("answers agentctl that trusts its authority by NODE_EXTRA_CA_CERTS.", async () => {
    const run = (env: Record<string, string>) =>
      promisify(execFile)(process.execPath, ["src/cli/agentctl.ts", "mandate", "export", join(folder, "mandates")], {
        cwd: ROOT,
        env: { PATH: process.env.PATH, AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey, ...env },
      }).catch(({ stderr }: { stderr: string }) => stderr);
    // The service's answer: there is nothing to export.
    expect(await run({ NODE_EXTRA_CA_CERTS: join(folder, "authority") })).to.contain("no mandates in force");
    expect(await run({})).to.match(/UNABLE_TO_VERIFY_LEAF_SIGNATURE.*NODE_EXTRA_CA_CERTS/s);
  });
});
