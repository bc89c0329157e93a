/* Runs the commands of KEYS.md at two replicas, one restarted after the other, while an agent goes on asking. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { json } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { expect } from "chai";
import { codeBlocks } from "../architecture/page.ts";
import { ROOT } from "../architecture/source-files.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { freePort } from "../support/free-port.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

const run = promisify(execFile);
const PERSON = "Wilhelmina Ockerbloom";
const PAGE = readFileSync(join(ROOT, "src/server/KEYS.md"), "utf8");

/** Returns the commands of a section. */
function commandsOf(heading: string): string {
  const section = PAGE.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const [block] = codeBlocks(section);
  expect(block?.language, heading).to.equal("sh");
  return block?.code ?? "";
}

/** `npm start` and `agentctl` of the reader: the first asks the test to restart the replicas with its settings. */
const PROGRAMS = {
  npm: `#!${process.execPath}
const settings = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("ACP_")));
fetch(process.env.TEST_RESTARTS, { method: "POST", body: JSON.stringify(settings) }).then(async (response) => {
  if (!response.ok) console.error(await response.text());
  process.exitCode = response.ok ? 0 : 1;
});
`,
  node: `#!/bin/sh
exec ${process.execPath} "$@"
`,
  agentctl: `#!/bin/sh
exec ${process.execPath} --disable-warning=ExperimentalWarning ${join(ROOT, "src/cli/agentctl.ts")} "$@"
`,
};

describe("the commands that rotate the keys of two replicas", () => {
  let database: TestDatabase;
  let folder: string;
  let env: Record<string, string>;
  const replicas: (ServedHere | undefined)[] = [];
  let restarts: ReturnType<typeof createServer>;
  let agentKey: string;
  let agentId: string;

  before(async () => {
    database = await createTestDatabase();
    folder = await mkdtemp(join(tmpdir(), "acp-keys-"));
    await mkdir(join(folder, "bin"));
    for (const [name, text] of Object.entries(PROGRAMS)) {
      await writeFile(join(folder, "bin", name), text);
      await chmod(join(folder, "bin", name), 0o755);
    }
    await writeFile(join(folder, "encryption-key"), randomBytes(32).toString("base64"));
    await sh("openssl ecparam -name prime256v1 -genkey -noout -out signing-key.pem", {});
    env = {
      ACP_ADMIN_KEY: "the-first-admin-key-of-the-test",
      ACP_ENCRYPTION_KEY: readFileSync(join(folder, "encryption-key"), "utf8"),
      ACP_SIGNING_KEY: join(folder, "signing-key.pem"),
    };
    for (const each of [0, 1]) await start(each, { ACP_HTTP_PORT: String(await freePort()) });
    restarts = createServer((request, response) => {
      json(request)
        .then((settings) => restartAll(settings as Record<string, string>))
        .then(
          () => response.end(),
          (error: Error) => response.writeHead(500).end(error.stack),
        );
    });
    await new Promise<void>((listening) => restarts.listen(0, "127.0.0.1", listening));
    const { agent } = await call("POST", "/v1/enforce/agents", { name: "clerk" });
    agentId = (agent as { agent_id: string }).agent_id;
    const { secret } = await call("POST", "/v1/admin/keys", { name: "clerk", role: "agent", agent_id: agentId });
    agentKey = secret as string;
    await call("POST", "/api/redact/default/values", { values: [{ kind: "person_name", value: PERSON }] });
  });
  after(async () => {
    restarts?.close();
    await Promise.all(replicas.map((each) => each?.stop()));
    await database?.drop();
    await rm(folder, { recursive: true, force: true });
  });

  async function start(index: number, port: { readonly ACP_HTTP_PORT: string }): Promise<void> {
    replicas[index] = await serveHere({ databaseUrl: database.url, env: { ...env, ...port } });
  }

  /** Restarts one replica after the other with settings in place of the present ones. */
  async function restartAll(settings: Readonly<Record<string, string>>): Promise<void> {
    const { ACP_ENCRYPTION_KEY_OLD: _, ...kept } = env;
    env = { ...kept, ...settings };
    if (settings.ACP_SIGNING_KEY !== undefined) env.ACP_SIGNING_KEY = resolve(folder, settings.ACP_SIGNING_KEY);
    for (const [index, replica] of [...replicas.entries()]) {
      const { port } = new URL(replica?.http ?? "");
      replicas[index] = undefined;
      await replica?.stop();
      await start(index, { ACP_HTTP_PORT: port });
    }
  }

  const admin = (): string => env.ACP_ADMIN_KEY ?? "";

  async function call(method: string, path: string, body?: object, key = admin()): Promise<Record<string, unknown>> {
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const send = (): Promise<Response> =>
      fetch(`${replicas.find((each) => each !== undefined)?.http}${path}`, { method, headers, ...sent });
    // A connection that reaches a replica as it stops is cut; clients call again.
    const response = await send().catch(send);
    return (await response.json()) as Record<string, unknown>;
  }

  async function sh(commands: string, settings: Readonly<Record<string, string>>): Promise<string> {
    const { stdout } = await run("bash", ["-euc", commands], {
      cwd: folder,
      env: { PATH: `${join(folder, "bin")}:${process.env.PATH}`, HOME: folder, NO_COLOR: "1", ...settings },
    });
    return stdout;
  }

  /** Runs commands of the page as a reader does, while the agent asks one replica that serves. Returns what they print. */
  async function follow(heading: string): Promise<string> {
    const ending = new AbortController();
    const answers: unknown[] = [];
    const asking = (async () => {
      while (!ending.signal.aborted) {
        const body = { agent_id: agentId, action_type: "note.write" };
        answers.push((await call("POST", "/v1/enforce/intercept", body, agentKey)).decision);
        await delay(20);
      }
    })();
    const { port } = restarts.address() as AddressInfo;
    const settings = { AGENTCTL_URL: replicas[0]?.http ?? "", AGENTCTL_KEY: admin() };
    try {
      return await sh(commandsOf(heading), { ...settings, TEST_RESTARTS: `http://127.0.0.1:${port}` });
    } finally {
      ending.abort();
      await asking;
      expect(answers.length).to.be.above(5);
      expect(new Set(answers)).to.deep.equal(new Set(["allow"]));
    }
  }

  it("replace the admin key, and end the earlier one.", async () => {
    const earlier = admin();
    const listed = await follow("Admin key");
    expect(listed)
      .to.match(/REVOKED/)
      .and.to.match(/maria/);
    expect(admin())
      .to.equal(readFileSync(join(folder, "admin.key"), "utf8").trim())
      .and.not.to.equal(earlier);
    expect((await stat(join(folder, "admin.key"))).mode & 0o777).to.equal(0o600);
    expect(await call("GET", "/v1/enforce/agents", undefined, earlier)).to.have.nested.property("error.code", 401);
    expect(await call("GET", "/v1/enforce/agents")).to.have.property("agents");
    const maria = readFileSync(join(folder, "maria.key"), "utf8").trim();
    expect(await call("GET", "/v1/enforce/agents", undefined, maria)).to.have.property("agents");
  });

  it("replace the signing key, retire the earlier one, and verify what it signed.", async () => {
    const verified = await follow("Signing key");
    expect(verified.match(/^VERIFIED/gm)).to.have.length(2);
    expect(verified).to.include("it contains the earlier checkpoint");
    const { keys } = (await call("GET", "/.well-known/jwks.json")) as { keys: { kid: string; retired_at?: string }[] };
    expect(keys.map(({ retired_at }) => retired_at !== undefined)).to.deep.equal([false, true]);
  });

  it("replace the encryption key, and everything stays readable without the earlier one.", async () => {
    await follow("Encryption key");
    expect(env).to.not.have.property("ACP_ENCRYPTION_KEY_OLD");
    expect(env.ACP_ENCRYPTION_KEY).to.equal(readFileSync(join(folder, "next-encryption-key"), "utf8").trim());
    const scrubbed = await call("POST", "/api/redact/default/scrub", { text: `mail ${PERSON}` });
    expect(scrubbed).to.have.property("ok", true);
    expect(JSON.stringify(scrubbed)).not.to.include(PERSON);
  });
});
