import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { TEST_TLS } from "../server/tls-pair.ts";
import { freePort } from "../support/free-port.ts";
import { startService } from "../support/service.ts";

const PROGRAM = join(import.meta.dirname, "../../src/deploy/healthcheck.js");

/** Runs the health check of the image; gives its exit code. */
const check = (env: Readonly<Record<string, string>>): Promise<number> =>
  new Promise((resolve) => {
    const child = execFile(process.execPath, [PROGRAM], { env: { PATH: process.env.PATH, ...env } });
    child.once("exit", (code) => resolve(code ?? -1));
  });

describe("the health check of the image", () => {
  let dir: string;
  let tls: { readonly ACP_TLS_CERT: string; readonly ACP_TLS_KEY: string };
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), "acp-health-"));
    tls = { ACP_TLS_CERT: join(dir, "cert.pem"), ACP_TLS_KEY: join(dir, "key.pem") };
    await writeFile(tls.ACP_TLS_CERT, TEST_TLS.cert);
    await writeFile(tls.ACP_TLS_KEY, TEST_TLS.key);
  });
  after(() => rm(dir, { recursive: true, force: true }));

  it("finds a service that runs, and none where nothing listens.", async () => {
    const service = await startService();
    expect(await check({ ACP_HTTP_PORT: new URL(service.http).port })).to.equal(0);
    await service.stop();
    expect(await check({ ACP_HTTP_PORT: `${await freePort()}` })).to.equal(1);
  });

  for (const [title, more] of Object.entries({
    "that speaks TLS": [],
    "that wants a certificate of each client": ["ACP_TLS_CLIENT_CA"],
  })) {
    it(`finds a service ${title}.`, async () => {
      const env = { ...tls, ...Object.fromEntries(more.map((name) => [name, tls.ACP_TLS_CERT])) };
      const service = await startService({ env });
      expect(await check({ ...tls, ACP_HTTP_PORT: new URL(service.http).port })).to.equal(0);
      await service.stop();
    });
  }
});
