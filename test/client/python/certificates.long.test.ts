import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { createAuthority } from "../../support/certificates.ts";
import { describeWithPackages } from "../../support/debian.ts";
import { serveWithTls, type TlsService } from "../../support/tls-service.ts";
import { installPythonPackage, PYTHON_PACKAGES, type PythonEnvironment } from "./python-library.ts";

describeWithPackages(
  "the Python package at a service that asks for certificates of clients",
  PYTHON_PACKAGES,
  function () {
    this.timeout(300_000);
    let service: TlsService;
    let environment: PythonEnvironment;
    before("builds and installs the wheel, and starts a server", async () => {
      environment = await installPythonPackage();
      service = await serveWithTls({ asksClients: true });
    });
    after("stops the server", async () => {
      await service?.stop();
      await environment?.remove();
    });

    it("shows one, and says what to set without one.", async () => {
      const ca = await service.file("ca", service.authority.cert);
      const clients = { own: service.authority.issue("own"), other: createAuthority("another").issue("other") };
      for (const [name, { cert, key }] of Object.entries(clients)) {
        await service.file(`${name}.crt`, cert);
        await service.file(`${name}.key`, key);
      }
      const address = { ACP_URL: `https://${service.grpc}`, ACP_KEY: service.adminKey, ACP_FILES: dirname(ca) };
      const env = { ...process.env, ...address, GRPC_VERBOSITY: "NONE", PYTHONDONTWRITEBYTECODE: "1" };
      const options = { env, cwd: import.meta.dirname };
      const run = promisify(execFile)(environment.python, ["-m", "unittest", "test_certificates"], options);
      const { stderr } = await run.catch((error) => error as { stderr: string });
      expect(stderr).to.match(/^Ran 4 tests.*\n\nOK$/m);
    });
  },
);
