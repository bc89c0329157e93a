import type { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Role as Roles } from "../../gen/agentcontrol/v1/access_pb.js";
import type { SealedKey } from "../state/control-changes.ts";
import type { ApiKeyRow } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { createSecret, hashSecret, prefixOf } from "./key-secret.ts";

/** What a key is made with. */
export interface KeyDraft {
  readonly name: string;
  readonly role: Role;
  /** The agent it is bound to; null for a key that speaks for every agent. */
  readonly agentId: string | null;
  /** Seconds until it stops to open anything; undefined for never. */
  readonly ttlSeconds?: number | undefined;
}

/** A key that is not stored yet. */
export interface NewKey {
  readonly row: ApiKeyRow;
  readonly sealed: SealedKey;
  readonly secret: string;
}

/** Makes a key of a workspace. The secret is new unless one is given. */
export function newKey(workspaceId: string, draft: KeyDraft, nowMs: number, secret = createSecret()): NewKey {
  const { name, role, agentId, ttlSeconds } = draft;
  const keyId = createId("key");
  const prefix = prefixOf(secret);
  const expiresAtMs = ttlSeconds === undefined ? null : nowMs + ttlSeconds * 1000;
  const secretHash = hashSecret(secret);
  return {
    secret,
    sealed: { key_id: keyId, name, role, agent_id: agentId, prefix },
    row: {
      keyId,
      workspaceId,
      name,
      role,
      agentId,
      prefix,
      secretHash,
      createdAtMs: nowMs,
      expiresAtMs,
      revokedAtMs: null,
    },
  };
}

/** Whether a key opens its workspace at a time. */
export function opensAt(key: Pick<ApiKeyRow, "expiresAtMs" | "revokedAtMs">, nowMs: number): boolean {
  return (key.revokedAtMs ?? null) === null && (key.expiresAtMs ?? Number.POSITIVE_INFINITY) > nowMs;
}

/** Whether a key may administer its workspace at a time. */
export function administersAt(key: ApiKeyRow, nowMs: number): boolean {
  return key.role === Roles.ADMIN && opensAt(key, nowMs);
}
