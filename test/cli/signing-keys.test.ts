import { type KeyObject, sign } from "node:crypto";
import { readFile } from "node:fs/promises";
import { expect } from "chai";
import { sealedFrom } from "../../src/authority/signing-key.ts";
import { createCheckpoints } from "../../src/log/checkpoint.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { agentctl, createFolder, type Folder, type Run } from "./harness.ts";
import { newKey } from "./written-log.ts";

const [OLD, NEW, STRANGER] = [newKey(), newKey(), newKey()] as const;
type Key = ReturnType<typeof newKey>;

const pemOf = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }).toString();
const idOf = ({ privateKey }: Key): string => sealedFrom(privateKey).key_id;
const signWith = ({ privateKey }: Key, text: string): Buffer => sign("sha256", Buffer.from(text), privateKey);

/** The same checkpoint, signed with another key. */
function signedAgain(note: string, { privateKey, publicPem }: Key): string {
  const [name = "", size = "", root = ""] = note.split("\n");
  const signer = { publicPem, sign: (bytes: Uint8Array) => sign("sha256", bytes, privateKey) };
  const checkpoints = createCheckpoints(name.replace(/\/vault\/.*/, ""), signer);
  return checkpoints("default", Number(size), Buffer.from(root, "base64")).note;
}

/** The same bundle under a checkpoint of another key. */
function bundleOf(text: string, key: Key): string {
  const [head = "", ...lines] = text.split("\n");
  const parsed = JSON.parse(head) as { checkpoint: string };
  const forged = { ...parsed, checkpoint: signedAgain(parsed.checkpoint, key), public_keys: [key.publicPem] };
  return [JSON.stringify(forged), ...lines].join("\n");
}

describe("agentctl signing-key retire", () => {
  it("takes the id of a key that begins with a hyphen.", async () => {
    const id = `-${"a".repeat(42)}`;
    const { code, stderr } = await agentctl(["signing-key", "retire", id, "--url", "http://127.0.0.1:1"], {
      AGENTCTL_KEY: "k",
    });
    expect(code).to.equal(1);
    expect(stderr).to.contain("cannot be reached");
  });
});

describe("agentctl signing-key retire, and what verifies after it", () => {
  let database: TestDatabase;
  let folder: Folder;
  let server: ServedHere;
  /** Paths of what the old key signed before its retirement, by name, and of what the new one signed after it. */
  const signed: Record<"log" | "decision" | "certificate", { before: string; after: string }> = {
    log: { before: "", after: "" },
    decision: { before: "", after: "" },
    certificate: { before: "", after: "" },
  };
  let retired: Run;

  const run = (...argv: readonly string[]): Promise<Run> =>
    agentctl(argv, { AGENTCTL_URL: server.http, AGENTCTL_KEY: server.adminKey });
  const start = (key: Key, adminKey = "an-admin-key-of-the-test"): Promise<ServedHere> =>
    serveHere({
      databaseUrl: database.url,
      env: { ACP_ADMIN_KEY: adminKey, ACP_SIGNING_KEY: pemOf(key.privateKey) },
    });
  async function post(path: string, body: object): Promise<Record<string, string>> {
    const headers = { "x-api-key": server.adminKey, "content-type": "application/json" };
    const response = await fetch(server.http + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as Record<string, string>;
  }

  /** Has the service sign a log, a decision and a certificate. */
  async function produce(when: "before" | "after"): Promise<void> {
    const { agent } = (await post("/v1/enforce/agents", { name: when })) as unknown as { agent: { agent_id: string } };
    const { agent_id } = agent;
    const { decision_id = "" } = await post("/v1/enforce/intercept", { agent_id, action_type: "read" });
    const certificate = await post(`/v1/enforce/agents/${agent_id}/revoke`, { reason: when });
    signed.certificate[when] = await folder.file(`certificate-${when}`, JSON.stringify(certificate));
    signed.decision[when] = folder.path(`decision-${when}`);
    signed.log[when] = folder.path(`log-${when}`);
    await run("vault", "prove", decision_id, "--out", signed.decision[when]);
    await run("vault", "export", "--out", signed.log[when]);
  }

  const verify = (kind: keyof typeof signed, path: string, ...trust: readonly string[]): Promise<Run> =>
    kind === "certificate"
      ? agentctl(["certificate", "verify", path, "--json", ...trust])
      : agentctl(["vault", "verify", path, "--json", ...trust]);

  /** A file as somebody would make it who has a key that is not to sign. */
  async function forged(kind: keyof typeof signed, key: Key): Promise<string> {
    const text = await readFile(signed[kind].after, "utf8");
    if (kind !== "certificate") return folder.file(`forged-${kind}`, bundleOf(text, key));
    const certificate = JSON.parse(text) as Record<string, string>;
    const canonical_body = (certificate.canonical_body ?? "").replace(idOf(NEW), idOf(key));
    const signature = signWith(key, canonical_body).toString("base64");
    const public_key = key.publicPem;
    const all = { ...certificate, key_id: idOf(key), canonical_body, signature, public_key };
    return folder.file(`forged-${kind}`, JSON.stringify(all));
  }

  let jwks: string;
  before(async () => {
    database = await createTestDatabase();
    folder = await createFolder();
    server = await start(OLD);
    await produce("before");
    await server.stop();
    server = await start(NEW);
    retired = await run("signing-key", "retire", idOf(OLD), "--json");
    await produce("after");
    jwks = await folder.file("jwks.json", await (await fetch(`${server.http}/.well-known/jwks.json`)).text());
  });
  after(async () => {
    await server?.stop();
    await folder?.remove();
    await database?.drop();
  });

  it("says when the key was retired, the same time again, and shows it in the key set.", async () => {
    expect(retired.code, retired.stdout + retired.stderr).to.equal(0);
    expect(retired.json()).to.include({ key_id: idOf(OLD) });
    const again = await run("signing-key", "retire", idOf(OLD), "--json");
    expect(again.json()).to.deep.equal(retired.json());
    const { keys } = JSON.parse(await readFile(jwks, "utf8")) as { keys: { kid: string; retired_at?: string }[] };
    expect(keys.map(({ kid }) => kid)).to.deep.equal([idOf(NEW), idOf(OLD)]);
    expect(Date.parse(keys[1]?.retired_at ?? "")).to.equal(Date.parse(String(retired.json().retired_at)));
    expect((await run("signing-key", "retire", idOf(OLD))).stdout).to.match(/^retired signing key .{43}\n {2}at {9}20/);
  });

  it("refuses the key in use, unknown ones and what is no key's id, and says why.", async () => {
    const cases: readonly (readonly [keyId: string, exit: number, why: RegExp])[] = [
      [idOf(NEW), 1, /is in use: start every process with another ACP_SIGNING_KEY/],
      [idOf(STRANGER), 1, /no signing key/],
      ["../keys", 2, /<key_id> is the `kid` of a key/],
    ];
    for (const [keyId, exit, why] of cases) {
      const { code, stderr } = await run("signing-key", "retire", keyId);
      expect(code, stderr).to.equal(exit);
      expect(stderr).to.match(why);
    }
    expect((await run("signing-key", "retire", "--help")).stdout).to.include(
      "Earlier signatures of the key still verify",
    );
  });

  for (const kind of ["log", "decision", "certificate"] as const) {
    it(`leaves a ${kind} valid that the key signed before, offline.`, async () => {
      const { code, stdout } = await verify(kind, signed[kind].before, "--jwks", jwks);
      expect(code, stdout).to.equal(0);
      expect((await verify(kind, signed[kind].after, "--jwks", jwks)).code).to.equal(0);
    });

    it(`refuses a ${kind} that the key signed after it.`, async () => {
      const { code, stdout, json } = await verify(kind, await forged(kind, OLD), "--jwks", jwks);
      expect(code, stdout).to.equal(1);
      expect(json()).to.include({ verified: false, fault: "signature" });
      expect(json().message).to.match(/retired/);
    });

    it(`refuses a ${kind} of a key that nothing sealed.`, async () => {
      const { code, stdout, json } = await verify(kind, await forged(kind, STRANGER), "--jwks", jwks);
      expect(code, stdout).to.equal(1);
      expect(json()).to.include({ verified: false, fault: "signature" });
    });
  }

  it("refuses a log under a key that it does not seal or has retired, whoever trusts the key.", async () => {
    for (const [key, why] of [
      [STRANGER, /which the log does not seal/],
      [OLD, /which entry \d+ retired/],
    ] as const) {
      const path = await forged("log", key);
      const pinned = await folder.file("pinned.pem", key.publicPem);
      for (const trust of [[], ["--public-key", pinned]]) {
        const { code, stdout, json } = await verify("log", path, ...trust);
        expect(code, stdout).to.equal(1);
        expect(json()).to.include({ fault: "signature" });
        expect(json().message).to.match(why);
      }
    }
  });

  it("takes a checkpoint that the key signed before for an earlier one, and none that it signed after.", async () => {
    const { checkpoint } = JSON.parse((await readFile(signed.log.before, "utf8")).split("\n")[0] ?? "");
    const kept = await folder.file("kept", checkpoint as string);
    const { code, stdout } = await run("vault", "verify", "--jwks", jwks, "--checkpoint", kept);
    expect(code, stdout).to.equal(0);
    const later = JSON.parse((await readFile(signed.log.after, "utf8")).split("\n")[0] ?? "").checkpoint as string;
    const again = await folder.file("again", signedAgain(later, OLD));
    const refused = await run("vault", "verify", "--jwks", jwks, "--checkpoint", again, "--json");
    expect(refused.code, refused.stdout).to.equal(1);
    expect(refused.json().message).to.match(/which entry \d+ retired/);
  });
});
