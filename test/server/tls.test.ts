import { once } from "node:events";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { connect as http2Connect } from "node:http2";
import { Agent, request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as tlsConnect } from "node:tls";
import { Client, credentials } from "@grpc/grpc-js";
import { expect } from "chai";
import pino from "pino";
import { type Tls, TlsFiles, type TlsPaths } from "../../src/server/tls.ts";
import { createAuthority, type TestCertificate } from "../support/certificates.ts";
import { ADMIN_KEY, type Harness, startHarness, until } from "./harness.ts";
import { grpcIntercept } from "./wires.ts";

const AUTHORITY = createAuthority();
const ACTION = { actionType: "send", agentId: "agt_1" };
const BODY = JSON.stringify({ action_type: "send", agent_id: "agt_1" });
const HEADERS = { "content-type": "application/json", "x-api-key": ADMIN_KEY };
const SECURE = { ca: AUTHORITY.cert, servername: "localhost" };

interface ClientCertificate {
  readonly cert?: string;
  readonly key?: string;
}

/** The serial number of the certificate that a new connection gets. */
async function serialAt(port: number): Promise<string> {
  const socket = tlsConnect({ host: "127.0.0.1", port, ALPNProtocols: ["h2"], ...SECURE });
  await once(socket, "secureConnect");
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

function overHttp1(port: number, agent: Agent | undefined, own: ClientCertificate = {}): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const options = { method: "POST", path: "/v1/enforce/intercept", headers: HEADERS, agent: agent ?? false };
    const request = httpsRequest({ host: "127.0.0.1", port, ...SECURE, ...own, ...options }, (response) => {
      response.resume();
      response.once("end", () => resolve(response.statusCode));
    });
    request.once("error", reject);
    request.end(BODY);
  });
}

function overHttp2(session: ReturnType<typeof http2Connect>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":method": "POST", ":path": "/v1/enforce/intercept", ...HEADERS });
    let status: number | undefined;
    stream.once("response", (headers) => {
      status = headers[":status"];
    });
    stream.once("error", reject);
    stream.once("close", () => (status === undefined ? reject(new Error("closed")) : resolve(status)));
    stream.resume().end(BODY);
  });
}

async function onNewSession(port: number, own: ClientCertificate = {}): Promise<number | undefined> {
  const session = http2Connect(`https://127.0.0.1:${port}`, { ...SECURE, ...own });
  // The error of the session is also that of its stream.
  session.on("error", () => undefined);
  return overHttp2(session).finally(() => session.destroy());
}

function grpcClient(port: number, own?: TestCertificate): Client {
  const [key, cert] = own === undefined ? [null, null] : [Buffer.from(own.key), Buffer.from(own.cert)];
  const options = { "grpc.ssl_target_name_override": "localhost", "grpc.use_local_subchannel_pool": 1 };
  return new Client(`127.0.0.1:${port}`, credentials.createSsl(Buffer.from(AUTHORITY.cert), key, cert), options);
}

async function overGrpc(client: Client): Promise<string> {
  return (await grpcIntercept(client, ACTION, { "x-api-key": ADMIN_KEY })).code;
}

describe("TLS from files", () => {
  let folder: string;
  let paths: TlsPaths;
  let logged: { msg: string; problem?: string; serial?: string }[];
  let started: AsyncDisposableStack;

  beforeEach(async () => {
    started = new AsyncDisposableStack();
    folder = await mkdtemp(join(tmpdir(), "acp-tls-"));
    started.defer(() => rm(folder, { recursive: true }));
    paths = { cert: join(folder, "tls.crt"), key: join(folder, "tls.key"), clientCa: null };
    logged = [];
  });
  afterEach(() => started.disposeAsync());

  async function write({ cert, key }: Pick<Tls, "cert" | "key">): Promise<void> {
    await writeFile(paths.cert, cert);
    await writeFile(paths.key, key);
  }

  async function open(): Promise<TlsFiles> {
    const log = pino({ level: "info" }, { write: (line: string) => void logged.push(JSON.parse(line)) });
    const files = await TlsFiles.open({ paths, log, intervalMs: 5 });
    started.defer(() => files.close());
    return files;
  }

  async function serve(): Promise<Harness> {
    const harness = await startHarness({ tls: await open() });
    started.defer(() => harness.stop());
    return harness;
  }

  /** Changes the certificate by `change` while calls arrive over every wire, on old and on new connections. */
  async function changedUnderLoad(harness: Harness, to: TestCertificate, change: () => Promise<void>): Promise<void> {
    const { httpPort, grpcPort } = harness;
    const agent = new Agent({ keepAlive: true });
    const session = http2Connect(`https://127.0.0.1:${httpPort}`, SECURE);
    const stream = grpcClient(grpcPort);
    let isOver = false;
    const counts = new Map<string, number>();
    const repeat = async (wire: string, call: () => Promise<unknown>, wanted: unknown) => {
      while (!isOver) {
        expect(await call(), wire).to.equal(wanted);
        counts.set(wire, (counts.get(wire) ?? 0) + 1);
      }
    };
    const onNewClient = async (): Promise<string> => {
      const client = grpcClient(grpcPort);
      return overGrpc(client).finally(() => client.close());
    };
    const load = Promise.all([
      repeat("h1", () => overHttp1(httpPort, agent), 200),
      repeat("h1, new connections", () => overHttp1(httpPort, undefined), 200),
      repeat("h2", () => overHttp2(session), 200),
      repeat("h2, new connections", () => onNewSession(httpPort), 200),
      repeat("gRPC", () => overGrpc(stream), "OK"),
      repeat("gRPC, new connections", onNewClient, "OK"),
    ]);
    const served = () => counts.size === 6;
    try {
      await Promise.race([until(served), load]);
      await change();
      for (const port of [httpPort, grpcPort]) while ((await serialAt(port)) !== to.serial);
      counts.clear();
      await Promise.race([until(served), load]);
    } finally {
      isOver = true;
      await load.finally(() => {
        agent.destroy();
        session.destroy();
        stream.close();
      });
    }
  }

  it("changes the certificate under load without a failed call", async () => {
    const [first, second] = [AUTHORITY.issue(), AUTHORITY.issue()];
    await write(first);
    const harness = await serve();
    expect(await serialAt(harness.httpPort)).to.equal(first.serial);
    expect(await serialAt(harness.grpcPort)).to.equal(first.serial);
    await changedUnderLoad(harness, second, () => write(second));
    expect(logged.map(({ msg, serial }) => [msg, serial])).to.deep.equal([
      ["TLS certificate loaded", first.serial],
      ["TLS certificate changed", second.serial],
    ]);
  });

  it("changes it when files are renamed over the old ones", async () => {
    const [first, second] = [AUTHORITY.issue(), AUTHORITY.issue()];
    await write(first);
    const harness = await serve();
    await changedUnderLoad(harness, second, async () => {
      await writeFile(`${paths.cert}.new`, second.cert);
      await writeFile(`${paths.key}.new`, second.key);
      await rename(`${paths.cert}.new`, paths.cert);
      await rename(`${paths.key}.new`, paths.key);
    });
  });

  it("changes it when a link of their folder is switched, as Kubernetes does", async () => {
    const [first, second] = [AUTHORITY.issue(), AUTHORITY.issue()];
    for (const [name, { cert, key }] of Object.entries({ "..2026_1": first, "..2026_2": second })) {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, "tls.crt"), cert);
      await writeFile(join(folder, name, "tls.key"), key);
    }
    await symlink("..2026_1", join(folder, "..data"));
    for (const name of ["tls.crt", "tls.key"]) await symlink(join("..data", name), join(folder, name));
    const harness = await serve();
    await changedUnderLoad(harness, second, async () => {
      await symlink("..2026_2", join(folder, "..data_tmp"));
      await rename(join(folder, "..data_tmp"), join(folder, "..data"));
    });
  });

  it("keeps the old pair while the new one is broken, and says so once", async () => {
    const [first, second, third] = [AUTHORITY.issue(), AUTHORITY.issue(), AUTHORITY.issue()];
    await write(first);
    const files = await open();
    const problems = () => logged.filter(({ problem }) => problem !== undefined);
    // A reading during a write would find a part of the file, which is another fault.
    const replace = async (path: string, text: string): Promise<void> => {
      await writeFile(`${path}.new`, text);
      await rename(`${path}.new`, path);
    };
    await replace(paths.cert, second.cert);
    await until(() => problems().length === 1);
    await rm(paths.key);
    await until(() => problems().length === 2);
    await replace(paths.key, "no key");
    await until(() => problems().length === 3);
    // Readings of a file that stays broken.
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(files.current).to.deep.include({ cert: first.cert, key: first.key });
    expect(problems().map(({ problem }) => problem)).to.deep.equal([
      "ACP_TLS_KEY names a key that does not fit the first certificate in the file of ACP_TLS_CERT",
      "ACP_TLS_KEY names a file that cannot be read (ENOENT)",
      "ACP_TLS_KEY names a file that holds no private key in PEM",
    ]);
    // Between the two, the new certificate stands beside the broken key, which is another change.
    await replace(paths.cert, third.cert);
    await replace(paths.key, third.key);
    await until(() => files.current.cert === third.cert);
    expect(JSON.stringify(logged)).not.to.contain("PRIVATE KEY--");
  });

  it("is refused at the start with the variable that is at fault", async () => {
    const failure = (): Promise<string> =>
      TlsFiles.open({ paths, log: pino({ level: "silent" }) }).then(
        (files) => {
          files.close();
          return "opened";
        },
        (error: Error) => error.message,
      );
    const { cert, key } = AUTHORITY.issue();
    expect(await failure()).to.equal("ACP_TLS_CERT names a file that cannot be read (ENOENT)");
    await write({ cert: key, key });
    expect(await failure()).to.equal("ACP_TLS_CERT names a file that holds no certificate in PEM");
    await write({ cert, key: AUTHORITY.issue().key });
    expect(await failure()).to.match(/^ACP_TLS_KEY names a key that does not fit/);
    await write({ cert, key: "" });
    expect(await failure()).to.equal("ACP_TLS_KEY names a file that holds no private key in PEM");
    await write({ cert, key });
    paths = { ...paths, clientCa: join(folder, "ca.crt") };
    await writeFile(join(folder, "ca.crt"), "");
    expect(await failure()).to.equal("ACP_TLS_CLIENT_CA names a file that holds no certificate in PEM");
    await writeFile(join(folder, "ca.crt"), cert.replace(/\n.{20}/, "\nAAAA"));
    expect(await failure()).to.equal("ACP_TLS_CLIENT_CA names a file whose certificate 1 cannot be read");
    await writeFile(join(folder, "ca.crt"), AUTHORITY.cert);
    expect(await failure()).to.equal("opened");
  });
});

describe("TLS with certificates of clients", () => {
  const clients = createAuthority("clients");
  const strangers = createAuthority("clients");
  let harness: Harness;

  before(async () => {
    harness = await startHarness({ tls: { ...AUTHORITY.issue(), clientCa: clients.cert } });
  });
  after(() => harness.stop());

  const outcomeOf = (call: Promise<unknown>) => call.catch(() => "refused");

  it("opens both ports to a certificate of the authority", async () => {
    const own = clients.issue("billing");
    expect(await overHttp1(harness.httpPort, undefined, own)).to.equal(200);
    expect(await onNewSession(harness.httpPort, own)).to.equal(200);
    const client = grpcClient(harness.grpcPort, own);
    expect(await overGrpc(client)).to.equal("OK");
    client.close();
  });

  const refused: [string, TestCertificate | undefined][] = [
    ["no certificate", undefined],
    ["a certificate of another authority with the same name", strangers.issue("billing")],
    ["a certificate that signs itself", createAuthority("billing")],
    ["a certificate of the service's own authority", AUTHORITY.issue()],
  ];
  for (const [name, own] of refused) {
    it(`refuses ${name} before a request is read`, async () => {
      const seen = harness.seen.length;
      expect(await outcomeOf(overHttp1(harness.httpPort, undefined, own))).to.equal("refused");
      expect(await outcomeOf(onNewSession(harness.httpPort, own))).to.equal("refused");
      const client = grpcClient(harness.grpcPort, own);
      expect(await overGrpc(client)).to.equal("UNAVAILABLE");
      client.close();
      expect(harness.seen.length).to.equal(seen);
    });
  }

  it("gives no role with the certificate: a call needs its key", async () => {
    const own = clients.issue("admin");
    const session = http2Connect(`https://127.0.0.1:${harness.httpPort}`, { ...SECURE, ...own });
    const stream = session.request({ ":path": "/v1/enforce/escalations" });
    const [headers] = await once(stream, "response");
    session.destroy();
    expect(headers[":status"]).to.equal(401);
  });
});

describe("a port with TLS that closes", () => {
  it("lets a call over HTTP/1.1 finish and closes the idle connection", async () => {
    const release = Promise.withResolvers<void>();
    const intercept = async () => {
      await release.promise;
      return { decisionId: "dec_1", trustScore: 50 };
    };
    const harness = await startHarness({ tls: AUTHORITY.issue(), enforcement: { intercept } });
    const idle = tlsConnect({ host: "127.0.0.1", port: harness.httpPort, ...SECURE });
    await once(idle, "secureConnect");
    const open = overHttp1(harness.httpPort, undefined);
    await until(() => harness.seen.length === 1);
    const closed = harness.closeHttp(60_000);
    await once(idle.resume(), "close");
    release.resolve();
    expect(await open).to.equal(200);
    await closed;
    await harness.stop();
  });
});
