import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { expect } from "chai";
import { utf8 } from "../../src/verify/bytes.ts";
import { verifyCheckpoint } from "../../src/verify/checkpoint.ts";
import { publicKeyFromPem, publicKeysFromJwks, rawSignature } from "../../src/verify/public-key.ts";
import { decisions, newKey, writeLog } from "../cli/written-log.ts";

const pemOf = (key: KeyObject): string => key.export({ type: "spki", format: "pem" }).toString();

describe("the verifier's keys", () => {
  const key = newKey();
  const jwk = { ...key.privateKey.export({ format: "jwk" }), d: undefined };

  it("are the same from PEM and from a key set.", async () => {
    const fromPem = await publicKeyFromPem(`a comment\n${key.publicPem.replaceAll("\n", "\r\n")}`);
    const [fromSet] = (await publicKeysFromJwks({ keys: [jwk] })) ?? [];
    for (const name of ["fingerprint", "noteKeyId", "thumbprint", "pem"] as const) {
      expect(fromPem?.[name], name).to.equal(fromSet?.[name]);
    }
    expect(fromPem?.pem).to.equal(key.publicPem);
  });

  it("are ECDSA P-256 keys alone, in PEM `PUBLIC KEY` alone.", async () => {
    const { privateKey } = key;
    const { publicKey: other } = generateKeyPairSync("ec", { namedCurve: "secp384r1" });
    const { publicKey: edwards } = generateKeyPairSync("ed25519");
    const texts = [
      pemOf(other),
      pemOf(edwards),
      privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
      privateKey.export({ type: "sec1", format: "pem" }).toString(),
      key.publicPem.replace("MFkw", "MFkx"),
      key.publicPem.replace(/\n-----END.*/s, ""),
      "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----",
      "",
    ];
    for (const text of texts) expect(await publicKeyFromPem(text), text).to.equal(undefined);
  });

  it("are read from a key set, in which others and faulty ones are skipped.", async () => {
    const edwards = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
    const keys = [edwards, null, 1, {}, { ...jwk, x: "AAAA" }, jwk, { ...jwk, retired_at: "soon" }];
    const found = (await publicKeysFromJwks({ keys })) ?? [];
    expect(found.map(({ retiredAtMs }) => retiredAtMs)).to.deep.equal([undefined, 0]);
    for (const none of [undefined, null, 1, "keys", [], {}, { keys: {} }]) {
      expect(await publicKeysFromJwks(none)).to.equal(undefined);
    }
  });

  it("sign no checkpoint under an id that is not their thumbprint.", async () => {
    const note = writeLog(decisions(2), { key }).checkpoint();
    const thumbprint = (await publicKeyFromPem(key.publicPem))?.thumbprint;
    const withId = async (kid?: string) => (await publicKeysFromJwks({ keys: [{ ...jwk, kid }] })) ?? [];
    expect((await verifyCheckpoint(note, await withId(thumbprint))).treeSize).to.equal(2);
    for (const kid of ["other", undefined]) {
      const refusal = await verifyCheckpoint(note, await withId(kid)).catch((error: unknown) => error);
      expect(refusal).to.include({ fault: "signature" });
      expect((refusal as Error).message).to.include("which is not its thumbprint");
    }
  });

  it("take exact DER alone for a signature, and none of another key or text.", async () => {
    const read = await publicKeyFromPem(key.publicPem);
    const other = await publicKeyFromPem(newKey().publicPem);
    for (let count = 0; count < 200; count++) {
      const text = utf8(String(count));
      const der = sign("sha256", text, key.privateKey);
      expect(rawSignature(der)?.length).to.equal(64);
      expect(rawSignature(Buffer.concat([der, Buffer.of(0)]))).to.equal(undefined);
      expect(rawSignature(der.subarray(0, -1))).to.equal(undefined);
      expect(await read?.hasSigned(text, der)).to.equal(true);
      expect(await read?.hasSigned(utf8(`${count}.`), der)).to.equal(false);
      expect(await other?.hasSigned(text, der)).to.equal(false);
    }
    expect(rawSignature(Buffer.of())).to.equal(undefined);
    expect(rawSignature(Buffer.from("30060201810201ff", "hex"))).to.equal(undefined);
    expect(rawSignature(Buffer.from("3007020200010201", "hex"))).to.equal(undefined);
    expect(await read?.hasSigned(utf8(""), Buffer.from("3006020100020100", "hex"))).to.equal(false);
  });
});
