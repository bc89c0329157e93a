/* Certificates for tests of TLS, made without a program beside Node. */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** A certificate with its key. */
export interface TestCertificate {
  /** PEM. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
  /** Serial number in upper-case hexadecimal digits, as `X509Certificate` shows it. */
  readonly serial: string;
}

/** A certificate that issues others. */
export interface TestAuthority extends TestCertificate {
  /** Issues a certificate for `localhost` and 127.0.0.1, which servers and clients may use. */
  issue(name?: string): TestCertificate;
}

const YEAR_MS = 31_536_000_000;

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const bytes = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...bytes]), content]);
}

const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, ...parts);
const oid = (...bytes: readonly number[]): Buffer => der(0x06, Buffer.from(bytes));
const ECDSA_WITH_SHA256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));

function nameOf(text: string): Buffer {
  return sequence(der(0x31, sequence(oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from(text)))));
}

function time(at: Date): Buffer {
  return der(0x18, Buffer.from(`${at.toISOString().replace(/[-:T]/g, "").slice(0, 14)}Z`));
}

function extension(id: number, isCritical: boolean, value: Buffer): Buffer {
  const critical = isCritical ? [der(0x01, Buffer.from([0xff]))] : [];
  return sequence(oid(0x55, 0x1d, id), ...critical, der(0x04, value));
}

const ALTERNATIVE_NAMES = sequence(der(0x82, Buffer.from("localhost")), der(0x87, Buffer.from([127, 0, 0, 1])));

interface Draft {
  readonly subject: string;
  readonly issuer: string;
  readonly isAuthority: boolean;
  /** Absent: it signs itself. */
  readonly signedBy?: KeyObject;
}

function certificateFrom({
  subject,
  issuer,
  isAuthority,
  signedBy,
}: Draft): TestCertificate & { privateKey: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  // Between 0x40 and 0x7f, so that no byte is added or left out.
  const serial = Buffer.concat([Buffer.from([0x5a]), randomBytes(8)]);
  const basic = extension(0x13, true, isAuthority ? sequence(der(0x01, Buffer.from([0xff]))) : sequence());
  const now = Date.now();
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    ECDSA_WITH_SHA256,
    nameOf(issuer),
    sequence(time(new Date(now - 3_600_000)), time(new Date(now + YEAR_MS))),
    nameOf(subject),
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(basic, extension(0x11, false, ALTERNATIVE_NAMES))),
  );
  const signature = sign("sha256", body, signedBy ?? privateKey);
  const whole = sequence(body, ECDSA_WITH_SHA256, der(0x03, Buffer.from([0]), signature));
  const lines = whole.toString("base64").match(/.{1,64}/g) ?? [];
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    serial: serial.toString("hex").toUpperCase(),
    privateKey,
  };
}

/** Creates a certificate that issues others. */
export function createAuthority(name = "test authority"): TestAuthority {
  const { privateKey, ...own } = certificateFrom({ subject: name, issuer: name, isAuthority: true });
  return {
    ...own,
    issue: (subject = "localhost") =>
      certificateFrom({ subject, issuer: name, isAuthority: false, signedBy: privateKey }),
  };
}
