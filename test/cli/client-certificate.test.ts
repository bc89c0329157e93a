import { execFile } from "node:child_process";
import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { createAuthority } from "../support/certificates.ts";
import { serveWithTls, type TlsService } from "../support/tls-service.ts";
import { createFolder, type Folder } from "./harness.ts";
import { EVENT, type HookRun, runCommandLine } from "./hook/hook-run.ts";

const PROGRAM = join(import.meta.dirname, "../../src/cli/agentctl.ts");

interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

describe("agentctl at a service that asks for certificates of clients", () => {
  let service: TlsService;
  let folder: Folder;
  let env: Record<string, string>;

  before(async () => {
    service = await serveWithTls({ asksClients: true });
    folder = await createFolder();
    const own = service.authority.issue("operator");
    env = {
      PATH: process.env.PATH ?? "",
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? "",
      HOME: folder.path("home"),
      INIT_CWD: folder.path("."),
      AGENTCTL_URL: service.http,
      AGENTCTL_KEY: service.adminKey,
      ACP_AGENT_KEY: service.adminKey,
      AGENTCTL_CERT: await folder.file("crt", own.cert),
      AGENTCTL_CERT_KEY: await folder.file("key", own.key),
      NODE_EXTRA_CA_CERTS: await folder.file("ca", service.authority.cert),
    };
  });
  after(async () => {
    await service?.stop();
    await folder?.remove();
  });

  /** Runs it as a process, which reads NODE_EXTRA_CA_CERTS when it starts. */
  const agentctl = (argv: readonly string[], changes: Record<string, string> = {}): Promise<Output> =>
    promisify(execFile)(process.execPath, [PROGRAM, ...argv], { env: { ...env, ...changes } }).then(
      (output) => ({ ...output, code: 0 }),
      (error: Output) => error,
    );
  const WITHOUT = { AGENTCTL_CERT: "", AGENTCTL_CERT_KEY: "" };
  const list = (changes?: Record<string, string>): Promise<Output> => agentctl(["agents", "list"], changes);

  it("shows the one in AGENTCTL_CERT.", async () => {
    const { code, stderr } = await list();
    expect(code, stderr).to.equal(0);
  });

  it("without one is told what to set.", async () => {
    const { code, stderr } = await list(WITHOUT);
    expect(code).not.to.equal(0);
    expect(stderr).to.match(/cannot be reached.*set AGENTCTL_CERT and AGENTCTL_CERT_KEY/);
  });

  it("with one of another issuer is told so.", async () => {
    const other = createAuthority("another").issue();
    const files = {
      AGENTCTL_CERT: await folder.file("other.crt", other.cert),
      AGENTCTL_CERT_KEY: await folder.file("other.key", other.key),
    };
    expect((await list(files)).stderr).to.match(/cannot be reached.*the certificate in AGENTCTL_CERT/);
  });

  it("that does not trust the service is told what to set.", async () => {
    expect((await list({ NODE_EXTRA_CA_CERTS: "" })).stderr).to.contain("set NODE_EXTRA_CA_CERTS");
  });

  it("says which variable is missing or wrong.", async () => {
    expect((await list({ AGENTCTL_CERT_KEY: "" })).stderr).to.contain("AGENTCTL_CERT_KEY is missing");
    const { stderr } = await list({ AGENTCTL_CERT: folder.path("none") });
    expect(stderr).to.contain("AGENTCTL_CERT names a file that cannot be read (ENOENT)");
    const mixed = await list({ AGENTCTL_CERT_KEY: await folder.file("mixed.key", createAuthority().key) });
    expect(mixed.stderr).to.match(/AGENTCTL_CERT.*AGENTCTL_CERT_KEY/);
  });

  describe("installs a hook", () => {
    const settings = (): string => folder.path(".codex/hooks.json");
    let agentId: string;
    before(async () => {
      const { stdout } = await agentctl(["agents", "create", "coder", "--json"]);
      agentId = JSON.parse(stdout).agent.agent_id;
    });
    const attach = (changes?: Record<string, string>): Promise<Output> =>
      agentctl(["attach", "codex", "--agent", agentId], changes);

    async function call(): Promise<HookRun> {
      const { hooks } = JSON.parse(await readFile(settings(), "utf8")) as {
        hooks: { PreToolUse: [{ hooks: [{ command: string }] }] };
      };
      return runCommandLine(hooks.PreToolUse[0].hooks[0].command, EVENT);
    }

    it("that shows the certificate, with an empty environment.", async () => {
      const { stdout } = await attach();
      expect(stdout).to.contain(`as ${agentId}: allow`);
      expect(await call()).to.deep.include({ code: 0, stderr: "" });
    });

    it("that takes a renewed certificate from the same files.", async () => {
      await attach();
      const renewed = service.authority.issue("renewed");
      await folder.file("crt", renewed.cert);
      await folder.file("key", renewed.key);
      expect(await call()).to.deep.include({ code: 0, stderr: "" });
    });

    it("that says when the certificate is gone.", async () => {
      await attach();
      await rename(folder.path("crt"), folder.path("crt.away"));
      const { stderr, code } = await call();
      await rename(folder.path("crt.away"), folder.path("crt"));
      expect(code).to.equal(2);
      expect(stderr)
        .to.match(/certificate .*cannot be read \(ENOENT\)/)
        .and.contain("agentctl attach");
    });

    it("that says without one what to set.", async () => {
      const { stdout } = await attach(WITHOUT);
      expect(stdout).to.contain("FAILED").and.contain("set AGENTCTL_CERT and AGENTCTL_CERT_KEY");
      const { stderr, code } = await call();
      expect(code).to.equal(2);
      expect(stderr).to.match(/set AGENTCTL_CERT and AGENTCTL_CERT_KEY.*agentctl attach/);
    });

    it("that says what to set where it does not trust the service.", async () => {
      expect((await attach({ NODE_EXTRA_CA_CERTS: "" })).stdout).to.contain("set NODE_EXTRA_CA_CERTS");
    });

    it("but not with half of a certificate.", async () => {
      const { code, stderr } = await attach({ AGENTCTL_CERT: "" });
      expect(code).not.to.equal(0);
      expect(stderr).to.contain("AGENTCTL_CERT is missing");
    });
  });
});
