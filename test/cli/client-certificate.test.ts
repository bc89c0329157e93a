import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { expect } from "chai";
import { createAuthority } from "../support/certificates.ts";
import { agentctl, createFolder, type Folder, type Run } from "./harness.ts";

describe("agentctl at a service that asks for certificates of clients", () => {
  const authority = createAuthority();
  const trusted = getCACertificates("default");
  let server: Server;
  let folder: Folder;
  let env: Record<string, string>;

  before(async () => {
    // As NODE_EXTRA_CA_CERTS does for a process.
    setDefaultCACertificates([...trusted, authority.cert]);
    const { cert, key } = authority.issue();
    server = createServer({ cert, key, ca: authority.cert, requestCert: true }, (request, response) => {
      response.setHeader("content-type", "application/json");
      const isPatch = request.method === "PATCH";
      const workspace = { workspace_id: "payments", halted: true };
      response.end(JSON.stringify(isPatch ? { workspace } : { workspaces: [workspace] }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    folder = await createFolder();
    const own = authority.issue("operator");
    env = {
      AGENTCTL_URL: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
      AGENTCTL_KEY: "acp_key",
      AGENTCTL_CERT: await folder.file("crt", own.cert),
      AGENTCTL_CERT_KEY: await folder.file("key", own.key),
    };
  });
  after(async () => {
    setDefaultCACertificates(trusted);
    server.closeAllConnections();
    server.close();
    await folder.remove();
  });

  const halt = (changes: Record<string, string>): Promise<Run> => agentctl(["halt"], { ...env, ...changes });

  it("shows the one in AGENTCTL_CERT.", async () => {
    expect((await halt({})).stdout).to.contain("halted workspace payments");
  });

  it("is refused without one.", async () => {
    const { code, stderr } = await halt({ AGENTCTL_CERT: "", AGENTCTL_CERT_KEY: "" });
    expect(code).not.to.equal(0);
    expect(stderr).to.contain("cannot be reached");
  });

  it("says which variable is missing or wrong.", async () => {
    expect((await halt({ AGENTCTL_CERT_KEY: "" })).stderr).to.contain("AGENTCTL_CERT_KEY is missing");
    const { stderr } = await halt({ AGENTCTL_CERT: folder.path("none") });
    expect(stderr).to.contain("AGENTCTL_CERT names a file that cannot be read (ENOENT)");
  });
});
