import { defineEntity, type InferEntity, p } from "@mikro-orm/postgresql";

/** A piece of authority. `uses` is a snapshot; see `Workspace.trustSeq`. */
export const AuthorityEntity = defineEntity({
  name: "Authority",
  tableName: "authority",
  properties: {
    workspaceId: p.text().primary(),
    id: p.text().primary(),
    kind: p.text(),
    agentId: p.text().nullable(),
    grantorAgentId: p.text().nullable(),
    sealed: p.json<object>(),
    createdSeq: p.bigint("number"),
    createdAtMs: p.bigint("number"),
    endedAtMs: p.bigint("number").nullable(),
    uses: p.bigint("number"),
    secretHash: p.blob().nullable(),
  },
});

/** A revocation with its certificate: the exact body that was signed. */
export const RevocationEntity = defineEntity({
  name: "Revocation",
  tableName: "revocation",
  properties: {
    workspaceId: p.text().primary(),
    revocationId: p.text().primary(),
    agentId: p.text(),
    seq: p.bigint("number"),
    keyId: p.text(),
    body: p.text(),
    signature: p.blob(),
  },
});

/** A record of something that went wrong and what was done. */
export const IncidentEntity = defineEntity({
  name: "Incident",
  tableName: "incident",
  properties: {
    workspaceId: p.text().primary(),
    incidentId: p.text().primary(),
    kind: p.integer(),
    agentId: p.text(),
    revocationId: p.text(),
    summary: p.text(),
    reason: p.text(),
    createdBy: p.text(),
    createdAtMs: p.bigint("number"),
    createdSeq: p.bigint("number"),
  },
});

/** A public key that the service signs, or once signed, with. */
export const SigningKeyEntity = defineEntity({
  name: "SigningKey",
  tableName: "signing_key",
  properties: {
    keyId: p.text().primary(),
    publicJwk: p.json<object>(),
    publicPem: p.text(),
    createdAtMs: p.bigint("number"),
  },
});

/** One row of each table. */
export type AuthorityRow = InferEntity<typeof AuthorityEntity>;
export type RevocationRow = InferEntity<typeof RevocationEntity>;
export type IncidentRow = InferEntity<typeof IncidentEntity>;
export type SigningKeyRow = InferEntity<typeof SigningKeyEntity>;
