import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { calculateJwkThumbprint } from "jose";
import { loadSigningKey, type SigningKeys } from "../../src/authority/signing-key.ts";
import { createTestDatabase } from "../support/database.ts";
import { newPrivateKey, openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { startServer } from "../support/server.ts";

const pemOf = (key = newPrivateKey()): string => key.export({ type: "pkcs8", format: "pem" }).toString();
const SEC1 = newPrivateKey().export({ type: "sec1", format: "pem" }).toString();
const RSA = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
const P384 = generateKeyPairSync("ec", { namedCurve: "secp384r1" }).privateKey;

/** Texts that are no key to sign with. */
const BAD_KEYS: Readonly<Record<string, string>> = {
  "an RSA key": RSA.export({ type: "pkcs8", format: "pem" }).toString(),
  "a key of another curve": P384.export({ type: "pkcs8", format: "pem" }).toString(),
  "a public key": createPublicKey(newPrivateKey()).export({ type: "spki", format: "pem" }).toString(),
  "half a key": `${pemOf().slice(0, 80)}\n-----END PRIVATE KEY-----\n`,
};

async function messageOf(loading: Promise<unknown>): Promise<string> {
  return loading.then(
    () => "it was taken",
    (error: Error) => error.message,
  );
}

describe("the signing key", () => {
  let folder: string;
  let unused: string;

  beforeEach("makes a folder", async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-keys-"));
    unused = join(folder, "data", "signing-key.pem");
  });
  afterEach("removes the folder", () => rm(folder, { recursive: true, force: true }));

  it("is made on first use, readable by its owner alone, and the same from then on.", async () => {
    const first = await loadSigningKey(undefined, unused);
    expect((await stat(unused)).mode & 0o777).to.equal(0o600);
    expect(first.asymmetricKeyDetails?.namedCurve).to.equal("prime256v1");
    expect((await loadSigningKey(undefined, unused)).equals(first)).to.equal(true);
    expect(await readdir(join(folder, "data"))).to.deep.equal(["signing-key.pem"]);
  });

  it("is made readable by its owner alone when its file is open to others.", async () => {
    const key = newPrivateKey();
    const path = join(folder, "open.pem");
    await writeFile(path, pemOf(key), { mode: 0o644 });
    expect((await loadSigningKey(undefined, path)).equals(key)).to.equal(true);
    expect((await stat(path)).mode & 0o777).to.equal(0o600);
  });

  it("is one key for all who start at the same time.", async () => {
    const loaded = await Promise.all(Array.from({ length: 20 }, () => loadSigningKey(undefined, unused)));
    expect(loaded.every((key) => loaded[0]?.equals(key))).to.equal(true);
    expect(await readdir(join(folder, "data"))).to.deep.equal(["signing-key.pem"]);
  });

  it("is taken from ACP_SIGNING_KEY as PEM and as a path, PKCS #8 or SEC 1, and nothing is written.", async () => {
    const key = newPrivateKey();
    const path = join(folder, "key.pem");
    await writeFile(path, pemOf(key));
    for (const configured of [pemOf(key), path]) {
      expect((await loadSigningKey(configured, unused)).equals(key)).to.equal(true);
    }
    expect((await loadSigningKey(SEC1, unused)).type).to.equal("private");
    expect(await readdir(folder)).to.deep.equal(["key.pem"]);
  });

  for (const [what, text] of Object.entries(BAD_KEYS)) {
    it(`is refused, by the name of its source alone, when it is ${what}.`, async () => {
      expect(await messageOf(loadSigningKey(text, unused))).to.equal(
        "ACP_SIGNING_KEY holds no ECDSA P-256 private key in PEM",
      );
      const path = join(folder, "bad.pem");
      await writeFile(path, text);
      expect(await messageOf(loadSigningKey(path, unused))).to.equal(
        "the file that ACP_SIGNING_KEY names holds no ECDSA P-256 private key in PEM",
      );
      expect(await messageOf(loadSigningKey(undefined, path))).to.equal(
        `\`${path}\` holds no ECDSA P-256 private key in PEM`,
      );
      expect(await readFile(path, "utf8")).to.equal(text);
    });
  }

  it("is refused when ACP_SIGNING_KEY names no file.", async () => {
    expect(await messageOf(loadSigningKey(join(folder, "none.pem"), unused))).to.equal(
      "ACP_SIGNING_KEY names a file that cannot be read (ENOENT)",
    );
  });

  it("keeps the service from starting when it is none, and is not shown then.", async () => {
    const database = await createTestDatabase();
    const [, secret = ""] = pemOf().split("\n");
    // A key that lost its first line looks like a path.
    for (const [key, why] of [
      [BAD_KEYS["half a key"] ?? "", "ACP_SIGNING_KEY holds no ECDSA P-256 private key in PEM"],
      [secret, "ACP_SIGNING_KEY names a file that cannot be read (ENOENT)"],
    ] as const) {
      const message = await messageOf(startServer({ databaseUrl: database.url, env: { ACP_SIGNING_KEY: key } }));
      expect(message).to.contain("ended with 1 before it listened").and.contain(why);
      for (const line of key.split("\n").filter((each) => each !== "" && !each.startsWith("-----"))) {
        expect(message).not.to.contain(line);
      }
    }
    await database.drop();
  });
});

describe("the public keys", () => {
  let workspace: TestWorkspace;

  before("creates a database", async () => {
    workspace = await openWorkspace();
  });
  after("closes it", () => workspace?.close());

  /** The keys of one more process, with a key of its own that it has sealed. */
  async function rotated(): Promise<SigningKeys> {
    const { keys } = await workspace.replica({ signingKey: newPrivateKey() });
    await keys.sealEverywhere();
    return keys;
  }

  it("hold every key that the service signed with, newest first, and nothing private.", async () => {
    const old = await rotated();
    const current = await rotated();
    const { keys } = await current.jwks();
    expect(keys.map(({ kid }) => kid)).to.deep.equal([current.keyId, old.keyId, workspace.keys.keyId]);
    for (const key of keys) {
      expect(key).to.have.all.keys("kty", "crv", "x", "y", "kid", "alg", "use");
      expect(key).to.include({ kty: "EC", crv: "P-256", alg: "ES256", use: "sig" });
      expect(await calculateJwkThumbprint(key)).to.equal(key.kid);
    }
    expect(await old.jwks()).to.deep.equal({ keys });
  });

  it("verify what any of them signed, on every replica.", async () => {
    const [first, second] = [await rotated(), await rotated()];
    const text = Buffer.from("a body");
    for (const [signer, verifier] of [
      [first, second],
      [second, first],
    ] as const) {
      const key = await verifier.find(workspace.workspaceId, signer.keyId);
      expect(key !== undefined && verify("sha256", text, key.publicKey, signer.sign(text))).to.equal(true);
    }
    expect(await first.find(workspace.workspaceId, "unknown")).to.equal(undefined);
    expect(await first.find("nowhere", first.keyId)).to.equal(undefined);
  });

  it("list a key once, however often the service starts with it, at the same moment or later.", async () => {
    const signingKey = newPrivateKey();
    const replicas = await Promise.all([1, 2, 3].map(() => workspace.replica({ signingKey })));
    await Promise.all(replicas.map(({ keys }) => keys.sealEverywhere()));
    const { keys: again } = await workspace.replica({ signingKey });
    await again.sealEverywhere();
    expect((await again.jwks()).keys.filter(({ kid }) => kid === again.keyId)).to.have.length(1);
  });
});
