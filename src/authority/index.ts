export { checkContract } from "./contract.ts";
export { chainAdmits, patternsBeyond } from "./delegation.ts";
export { checkIdentity, type Identity, type Refusal } from "./identity.ts";
export { createSigningKeys, loadSigningKey, type SigningKeys } from "./signing-key.ts";
export { type AuthorityStanding, holds, standingOf } from "./standing.ts";
export { checkToolPolicies } from "./tool-policy.ts";
export { openWindow } from "./window.ts";
