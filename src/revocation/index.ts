export { type Cascade, cascadeOf } from "./cascade.ts";
export {
  type Certificate,
  certificateDigest,
  isSignatureValid,
  type StoredCertificate,
  signCertificate,
} from "./certificate.ts";
export { getRevocation, listRevocations, type VerifiedCertificate } from "./find.ts";
export { getIncident, listIncidents } from "./incidents.ts";
export { type RevokeCommand, revokeAgent } from "./revoke.ts";
