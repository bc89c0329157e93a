import { type JsonObject, toJson } from "@bufbuild/protobuf";
import {
  type RevocationCertificate,
  RevocationCertificateSchema,
} from "../../../gen/agentcontrol/v1/revocation_service_pb.js";
import {
  assertCertificateSigned,
  assertCounts,
  assertMatchesBody,
  certificateKey,
  parseCertificate,
} from "../../verify/certificate.ts";
import type { PublicKey } from "../../verify/public-key.ts";
import { type CheckedStep, holdsIf, runSteps, type Step } from "./steps.ts";

/** Returns a certificate in its REST form, without the name that is not signed: the file that `agentctl certificate verify` reads. */
export function certificateJson(certificate: RevocationCertificate): JsonObject {
  const options = { useProtoFieldName: true, alwaysEmitImplicit: true };
  const { revoked_by_name: _, ...signed } = toJson(RevocationCertificateSchema, certificate, options) as JsonObject;
  return signed;
}

/**
 * Checks a certificate using only the published keys of the service: one of them is the certificate's key, it signed the
 * body, and every member shown equals the signed one.
 */
export function checkCertificate(
  certificate: RevocationCertificate,
  keys: readonly PublicKey[],
): Promise<readonly CheckedStep[]> {
  const shown = certificateJson(certificate);
  const steps: readonly Step[] = [
    step("canonical", "The signed body is canonical JSON (RFC 8785)", () => void parseCertificate(shown)),
    step("key", "The service publishes the key, and it is the certificate's", async () => {
      await certificateKey(shown, keys);
    }),
    step("signature", "The signature is that of the key over the body (ECDSA P-256, SHA-256)", async () =>
      assertCertificateSigned(shown, await certificateKey(shown, keys)),
    ),
    step("content", "Everything that is shown is what was signed", () => assertMatchesBody(shown)),
    step("counts", "The counts are those of the lists", () => assertCounts(parseCertificate(shown))),
  ];
  return runSteps(steps);
}

const step = (name: string, title: string, check: () => void | Promise<void>): Step => ({
  name,
  title,
  run: () => holdsIf([], check),
});
