export { checkContract } from "./contract.ts";
export { type CreatedSecret, createAuthority, createCredential, createFederationToken } from "./create.ts";
export { chainAdmits, patternsBeyond } from "./delegation.ts";
export type { AuthorityDraft } from "./draft.ts";
export { type AuthorityName, endAuthority } from "./end.ts";
export { createTokenVerifier, MAX_TOKEN_LENGTH, type TokenClaims, type TokenVerifier } from "./federation-token.ts";
export { type AuthorityFilter, type AuthoritySource, getAuthority, listAuthority } from "./find.ts";
export { checkIdentity, type Identity, type Refusal } from "./identity.ts";
export { MAX_CHAIN } from "./parent-grant.ts";
export { secretFromFile } from "./secret-file.ts";
export { createSigningKeys, loadSigningKey, type SigningKeys } from "./signing-key.ts";
export { type AuthorityStanding, holds, standingOf } from "./standing.ts";
export { checkToolPolicies } from "./tool-policy.ts";
export {
  type TokenFault,
  type TokenQuestion,
  type TokenSource,
  type TokenVerdict,
  verifyFederationToken,
} from "./verify-token.ts";
export type { AuthorityView } from "./view.ts";
export { openWindow } from "./window.ts";
