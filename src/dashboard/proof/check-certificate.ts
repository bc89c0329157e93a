import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import {
  type RevocationCertificate,
  RevocationCertificateSchema,
} from "../../../gen/agentcontrol/v1/revocation_service_pb.js";
import { bytesFromBase64, utf8 } from "./bytes.ts";
import { isObject, listAt, numberAt, parseSealed, textAt } from "./sealed-text.ts";
import { hasSigned, type PublishedKey, pemOf } from "./signed-note.ts";
import { type CheckedStep, runSteps, type Step } from "./steps.ts";

/** Members that are not part of what is signed. */
const UNSIGNED: ReadonlySet<string> = new Set(["signature", "public_key", "canonical_body"]);

/** Returns a certificate as the REST answer has it: the file that `agentctl certificate verify` reads. */
export function certificateJson(certificate: RevocationCertificate): JsonObject {
  const options = { useProtoFieldName: true, alwaysEmitImplicit: true };
  return toJson(RevocationCertificateSchema, certificate, options) as JsonObject;
}

/**
 * Checks a certificate with nothing of the service but its published keys: that its key is one of them, that it signed the
 * body, and that everything that is shown of the certificate is what was signed.
 */
export function checkCertificate(
  certificate: RevocationCertificate,
  keys: readonly PublishedKey[],
): Promise<readonly CheckedStep[]> {
  const { canonicalBody, publicKey, signature } = certificate;
  const body = parseSealed(canonicalBody);
  const key = keys.find(({ thumbprint }) => thumbprint === textAt(body, "key_id"));
  const steps: readonly Step[] = [
    step("canonical", "The signed body is canonical JSON (RFC 8785)", async () =>
      body === undefined ? "the body is no canonical JSON object" : undefined,
    ),
    step("key", "The service publishes the key, and it is the certificate's", async () =>
      keyFault(key, publicKey, textAt(body, "revoked_at")),
    ),
    step("signature", "The signature is that of the key over the body (ECDSA P-256, SHA-256)", async () => {
      const der = bytesFromBase64(signature);
      const holds = key !== undefined && der !== undefined && (await hasSigned(key, utf8(canonicalBody), der));
      return holds ? undefined : "the signature does not match the body: one of them was changed";
    }),
    step("content", "Everything that is shown is what was signed", async () => contentFault(certificate, body ?? {})),
    step("counts", "The counts are those of the lists", async () => countsFault(body ?? {})),
  ];
  return runSteps(steps);
}

function step(name: string, title: string, faultOf: () => Promise<string | undefined>): Step {
  return { name, title, run: async () => ({ compared: [], fault: await faultOf() }) };
}

function keyFault(key: PublishedKey | undefined, pem: string, revokedAt: string): string | undefined {
  if (key === undefined) return "the service does not publish the key that the body names";
  if (pemOf(key).trim() !== pem.trim()) return "the certificate's public key is not the one that the body names";
  if (key.retiredAtMs === undefined || Date.parse(revokedAt) <= key.retiredAtMs) return undefined;
  return `the key was retired at ${new Date(key.retiredAtMs).toISOString()}, before this revocation`;
}

function contentFault(certificate: RevocationCertificate, body: JsonObject): string | undefined {
  const shown = certificateJson(certificate);
  const names = Object.keys({ ...shown, ...body }).filter((name) => !UNSIGNED.has(name));
  const wrong = names.find((name) => !isEquivalent(shown[name], body[name]));
  return wrong === undefined ? undefined : `\`${wrong}\` differs from what was signed`;
}

function countsFault(body: JsonObject): string | undefined {
  const kinds = [body.counts, body.revoked].flatMap((each) => (isObject(each) ? Object.keys(each) : []));
  const wrong = kinds.find((kind) => listAt(body, `revoked.${kind}`).length !== numberAt(body, `counts.${kind}`));
  if (kinds.length === 0) return "the body has no counts";
  return wrong === undefined ? undefined : `the count of \`${wrong}\` differs from its list`;
}

const isTime = (text: unknown): text is string => typeof text === "string" && /^\d{4}-\d\d-\d\dT/.test(text);

/** Compares a shown value with a signed one; the fractions of a time and a number written as digits may differ in form. */
function isEquivalent(shown: JsonValue | undefined, signed: JsonValue | undefined): boolean {
  if (shown === signed) return true;
  if (isTime(shown) && isTime(signed)) return Date.parse(shown) === Date.parse(signed);
  if (typeof signed === "number") return String(shown) === String(signed);
  if (Array.isArray(signed)) {
    const isSameLength = Array.isArray(shown) && shown.length === signed.length;
    return isSameLength && signed.every((each, at) => isEquivalent(shown[at], each));
  }
  if (!isObject(signed) || !isObject(shown)) return false;
  return Object.keys({ ...shown, ...signed }).every((name) => isEquivalent(shown[name], signed[name]));
}
