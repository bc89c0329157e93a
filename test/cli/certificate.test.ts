import { expect } from "chai";
import { agentctl } from "./harness.ts";
import { type Served, startServed } from "./served.ts";
import { newKey } from "./written-log.ts";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Another value of the same type. */
function otherThan(value: Json): Json {
  if (typeof value === "number") return value + 1;
  if (typeof value === "string" && /^\d{4}-/.test(value)) return value.replace(/^\d{4}/, "1999");
  return typeof value === "string" ? `x${value}` : "x";
}

/** Every variant in which one value at the end of a path is another one. */
function alterations(json: Json): Json[] {
  if (typeof json !== "object" || json === null) return [otherThan(json)];
  return Object.entries(json).flatMap(([name, value]) =>
    alterations(value).map((altered) =>
      Array.isArray(json) ? json.with(Number(name), altered) : { ...json, [name]: altered },
    ),
  );
}

describe("agentctl certificate verify", () => {
  let served: Served;
  let certificate: { [name: string]: Json };

  before(async () => {
    served = await startServed();
    const { rest } = served;
    const agentId = await served.agent("rogue");
    await rest("POST /v1/enforce/sessions", { agent_id: agentId });
    certificate = await rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "key found" });
  });
  after(() => served?.stop());

  const verify = async (json: Json, ...more: string[]) =>
    agentctl(["certificate", "verify", await served.folder.file("certificate.json", JSON.stringify(json)), ...more]);

  it("verifies what revoking answered, and what is read back.", async () => {
    const read = await served.rest(`GET /v1/enforce/revocations/${String(certificate.revocation_id)}`);
    for (const json of [certificate, read]) {
      const { code, stdout } = await verify(json);
      expect(code, stdout).to.equal(0);
      expect(stdout).to.include("VERIFIED: revocation rev_").and.to.include("sessions 1");
      expect(stdout).to.include("a key that came from the certificate itself");
    }
  });

  it("verifies with a pinned key, and not with another.", async () => {
    const pem = await served.folder.file("pinned.pem", String(certificate.public_key));
    const pinned = await verify(certificate, "--public-key", pem, "--json");
    expect(pinned.json()).to.include({ verified: true, key_source: "pinned" });
    const other = await served.folder.file("other.pem", newKey().publicPem);
    const refused = await verify(certificate, "--public-key", other, "--json");
    expect(refused.code).to.equal(1);
    expect(refused.json()).to.include({ fault: "signature" });
  });

  it("refuses it when any value in it is another one.", async () => {
    const altered = alterations(certificate);
    expect(altered.length).to.be.greaterThan(20);
    for (const json of altered) {
      const { code, stdout } = await verify(json);
      expect(code, `${JSON.stringify(json)}\n${stdout}`).to.equal(1);
    }
  });

  it("refuses it when a member is left out or put in.", async () => {
    for (const name of Object.keys(certificate)) {
      const { [name]: _, ...less } = certificate;
      // Without a body it is no certificate at all.
      expect((await verify(less)).code, name).to.equal(name === "canonical_body" ? 2 : 1);
    }
    expect((await verify({ ...certificate, pardoned: true })).code).to.equal(1);
  });

  it("refuses a body in another spelling, though its signature were good.", async () => {
    const { code, stdout } = await verify({ ...certificate, canonical_body: ` ${String(certificate.canonical_body)}` });
    expect(code).to.equal(1);
    expect(stdout).to.include("(canonical)");
  });
});
