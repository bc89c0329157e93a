export { type JsonMembers, objectFromCanonical } from "./canonical-text.ts";
export { type VerifiedCertificate, verifyCertificate } from "./certificate.ts";
export { type Checkpoint, type SignedCheckpoint, verifyCheckpoint } from "./checkpoint.ts";
export { type DecisionProof, verifyDecision } from "./decision-proof.ts";
export { bytesFromBase64, hashesFrom, indexFrom, isMembers, required, textFrom } from "./form.ts";
export { createLogCheck, type LogCheck, type LogEntry } from "./log-check.ts";
export { hashOfLeaf, isConsistent, rootFromInclusion } from "./merkle.ts";
export { type PublicKey, publicKeyFromPem, publicKeysFromJwks } from "./public-key.ts";
export { VerificationError, type VerificationFault } from "./verification-error.ts";
