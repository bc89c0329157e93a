import { ControlPlaneError, ErrorReason, type FieldViolation, invalidField } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import { coversPattern } from "../policy/action-patterns.ts";
import { normaliseName } from "../policy/names.ts";
import { type AuthorityItem, chainOf } from "../state/authority.ts";
import { isInForce, itemStatus } from "../state/authority-status.ts";
import type { SealedAuthority } from "../state/control-changes.ts";
import { AuthorityEntity } from "../store/entities.ts";
import { authorityNotFound } from "./kind-traits.ts";

/** The part of new authority that the request alone determines. */
export type RequestedAuthority = Omit<
  SealedAuthority,
  "id" | "expires_at_ms" | "starts_at_ms" | "ttl_seconds" | "prefix"
>;

/** Maximum length of a chain of grants: a decision under a grant checks all of them. */
export const MAX_CHAIN = 16;

function parentInactive(grantId: string, standing: string): ControlPlaneError {
  const message = `parent grant \`${grantId}\` does not hold: \`${standing}\``;
  return new ControlPlaneError(ErrorReason.PARENT_GRANT_INACTIVE, message, { parent_grant_id: grantId, standing });
}

/** Explains a grant that the index does not have: it ended, expired or never existed. */
async function missingParent({ transaction, state }: ChangeScope, grantId: string): Promise<ControlPlaneError> {
  const where = { workspaceId: state.workspaceId, id: grantId, kind: "grant" };
  const row = await transaction.findOne(AuthorityEntity, where);
  if (row === null) return authorityNotFound("grant", grantId);
  return parentInactive(grantId, (row.endedAtMs ?? null) === null ? "expired" : "ended");
}

/** Returns the grant to delegate further. Throws AUTHORITY_NOT_FOUND, or PARENT_GRANT_INACTIVE unless its whole chain is in force. */
export async function getParentGrant(scope: ChangeScope, grantId: string): Promise<AuthorityItem> {
  const parent = scope.state.authority.get(grantId);
  if (parent?.sealed.kind !== "grant") throw await missingParent(scope, grantId);
  const broken = chainOf(parent).find((link) => !isInForce(link, scope.nowMs));
  if (broken !== undefined) throw parentInactive(broken.sealed.id, itemStatus(broken, scope.nowMs));
  return parent;
}

/** Returns the seconds that a grant was given for: those sealed with it, else its lifetime. Undefined for one that never expires. */
export function secondsOf({ sealed, createdAtMs }: AuthorityItem): number | undefined {
  const { ttl_seconds, expires_at_ms } = sealed;
  if (ttl_seconds !== undefined || expires_at_ms === null) return ttl_seconds;
  return Math.ceil((expires_at_ms - createdAtMs) / 1000);
}

/** Returns the patterns that exceed a wider list: no single pattern of the list covers them. */
function patternsBeyond(wider: readonly string[], narrower: readonly string[]): string[] {
  const outer = wider.map(normaliseName);
  return narrower.filter((pattern) => !outer.some((each) => coversPattern(each, normaliseName(pattern))));
}

/** Lists what a child grant asks for beyond its parent, in the order of the request's fields. */
function violationsOf(
  parent: AuthorityItem,
  requested: RequestedAuthority,
  expiresAtMs: number | null,
): FieldViolation[] {
  const { sealed, uses } = parent;
  const violations: FieldViolation[] = [];
  const add = (field: string, description: string, reason: string): void =>
    void violations.push({ field, description, reason });
  if (requested.grantor_agent_id !== sealed.agent_id) {
    add("grantor_agent_id", "must be the agent that the parent grant was given to", "GRANTOR_NOT_GRANTEE");
  }
  const actionTypes = requested.action_types ?? [];
  const beyond = new Set(patternsBeyond(sealed.action_types ?? [], actionTypes));
  for (const [index, pattern] of actionTypes.entries()) {
    if (beyond.has(pattern)) add(`action_types[${index}]`, "is not lent by the parent grant", "ACTION_TYPE_NOT_LENT");
  }
  if ((expiresAtMs ?? Number.POSITIVE_INFINITY) > (sealed.expires_at_ms ?? Number.POSITIVE_INFINITY)) {
    const most = `is more than the ${secondsOf(parent)} seconds of the parent grant`;
    const change = "ask for no more, or leave it out to end with the parent";
    add("ttl_seconds", `${most}; ${change}`, "EXPIRES_AFTER_PARENT");
  }
  const left = sealed.max_uses === null ? Number.POSITIVE_INFINITY : sealed.max_uses - uses;
  if (requested.max_uses !== null && requested.max_uses > left) {
    add("max_uses", `must be at most the ${left} uses that the parent grant has left`, "MORE_USES_THAN_PARENT");
  }
  return violations;
}

function tooWide(parentId: string, violations: readonly FieldViolation[]): ControlPlaneError {
  const fields = violations.map(({ field }) => `\`${field}\``).join(", ");
  const message = `the grant goes beyond its parent \`${parentId}\` in ${fields}`;
  return new ControlPlaneError(
    ErrorReason.GRANT_TOO_WIDE,
    message,
    { parent_grant_id: parentId, fields: violations.map(({ field }) => field).join(" ") },
    { violations },
  );
}

/**
 * Checks a grant against its parent. Throws INVALID_FIELD when an agent would be in the chain twice or the chain would get
 * longer than `MAX_CHAIN`, and GRANT_TOO_WIDE with everything that goes beyond the parent.
 */
export function assertWithin(parent: AuthorityItem, requested: RequestedAuthority, expiresAtMs: number | null): void {
  const chain = chainOf(parent);
  if (chain.length >= MAX_CHAIN) {
    throw invalidField("parent_grant_id", `must name a grant with fewer than ${MAX_CHAIN} grants in its chain`);
  }
  if (chain.some(({ sealed }) => sealed.grantor_agent_id === requested.agent_id)) {
    throw invalidField("grantee_agent_id", "must not be an agent that lends in the same chain of grants");
  }
  const violations = violationsOf(parent, requested, expiresAtMs);
  if (violations.length > 0) throw tooWide(parent.sealed.id, violations);
}
