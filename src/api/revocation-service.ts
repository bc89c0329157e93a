import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type PreviewedItemSchema,
  type PreviewRevocationResponseSchema,
  type RevocationCertificateSchema,
  RevocationService,
  type RevokedItemSchema,
} from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import type { SigningKeys } from "../authority/signing-key.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ActorNames, type NameOf } from "../registry/actor-names.ts";
import type { Authenticator } from "../registry/authenticator.ts";
import type { StoredCertificate } from "../revocation/certificate.ts";
import { type PreviewedItem, previewRevocation, type RevocationPreview } from "../revocation/preview.ts";
import { getRevocation, listRevocations } from "../revocation/revocations.ts";
import { revokeAgent } from "../revocation/revoke-agent.ts";
import type { SigningKey } from "../state/signing-keys.ts";
import type { Database } from "../store/database.ts";
import { optionalTimestamp } from "./field-values.ts";
import { pageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that RevocationService needs. */
export interface RevocationServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
  readonly keys: SigningKeys;
  /** Forgets the keys of a workspace after a revocation, which ends the agent's credentials. */
  readonly authenticator: Pick<Authenticator, "forget">;
}

type Item = { readonly id: string; readonly at: string };

/** Fields shared by RevocationCertificate and RevokeAgentResponse, which are all of RevokeAgentResponse. */
type CertificateFields = Omit<
  MessageInitShape<typeof RevocationCertificateSchema>,
  "$typeName" | "$unknown" | "revokedByName"
>;

const itemFrom = ({ id, at }: Item): MessageInitShape<typeof RevokedItemSchema> => ({
  id,
  at: timestampFromMs(Date.parse(at)),
});

type FindKey = (keyId: string) => Promise<SigningKey | undefined>;

/** Finds the keys that a workspace's log seals, each once however many certificates name it. */
function finderIn(keys: SigningKeys, workspaceId: string): FindKey {
  const found = new Map<string, ReturnType<FindKey>>();
  return (keyId) => {
    const key = found.get(keyId) ?? keys.find(workspaceId, keyId);
    found.set(keyId, key);
    return key;
  };
}

async function messageFrom(
  { revocationId, body, canonicalBody, signature, keyId }: StoredCertificate,
  find: FindKey,
): Promise<CertificateFields> {
  const key = await find(keyId);
  const publicPem = key?.publicKey.export({ type: "spki", format: "pem" }).toString() ?? "";
  const signed = { signature: Buffer.from(signature).toString("base64"), publicKey: publicPem, canonicalBody, keyId };
  // The stored body was altered and no longer parses: show it as stored, without interpreting it.
  if (body === undefined) return { ...signed, revocationId };
  const { revoked, counts } = body;
  return {
    ...signed,
    revocationId,
    workspaceId: body.workspace_id,
    agentId: body.agent_id,
    agentName: body.agent_name,
    reason: body.reason,
    revokedAt: timestampFromMs(Date.parse(body.revoked_at)),
    revokedBy: body.revoked_by,
    revoked: {
      sessions: revoked.sessions.map(itemFrom),
      credentials: revoked.credentials.map(itemFrom),
      grantsGiven: revoked.grants_given.map(itemFrom),
      grantsReceived: revoked.grants_received.map(itemFrom),
      temporalWindows: revoked.temporal_windows.map(itemFrom),
      intentContracts: revoked.intent_contracts.map(itemFrom),
      federationTokens: revoked.federation_tokens.map(itemFrom),
      mcpToolPolicies: revoked.mcp_tool_policies.map(itemFrom),
    },
    counts: {
      sessions: counts.sessions,
      credentials: counts.credentials,
      grantsGiven: counts.grants_given,
      grantsReceived: counts.grants_received,
      temporalWindows: counts.temporal_windows,
      intentContracts: counts.intent_contracts,
      federationTokens: counts.federation_tokens,
      mcpToolPolicies: counts.mcp_tool_policies,
    },
    ledgerSeq: BigInt(body.ledger_seq),
  };
}

/** Makes the message of a certificate with the name of who revoked, which is not signed. */
async function namedFrom(
  certificate: StoredCertificate,
  find: FindKey,
  nameOf: NameOf,
): Promise<CertificateFields & { readonly revokedByName: string | undefined }> {
  return { ...(await messageFrom(certificate, find)), revokedByName: nameOf(certificate.body?.revoked_by) };
}

const previewedFrom = ({ id, name, ...item }: PreviewedItem): MessageInitShape<typeof PreviewedItemSchema> => ({
  id,
  name,
  expiresAt: optionalTimestamp(item.expiresAtMs),
  ...(item.grantorAgentId === undefined ? {} : { grantorAgentId: item.grantorAgentId }),
  ...(item.granteeAgentId === undefined ? {} : { granteeAgentId: item.granteeAgentId }),
});

function previewFrom(
  preview: RevocationPreview,
): Omit<MessageInitShape<typeof PreviewRevocationResponseSchema>, "$typeName" | "$unknown"> {
  const { agentName, revocationId, revoked, keys, escalations } = preview;
  return {
    agentName,
    revocationId,
    revoked: {
      sessions: revoked.sessions.items.map(previewedFrom),
      credentials: revoked.credentials.items.map(previewedFrom),
      grantsGiven: revoked.grants_given.items.map(previewedFrom),
      grantsReceived: revoked.grants_received.items.map(previewedFrom),
      temporalWindows: revoked.temporal_windows.items.map(previewedFrom),
      intentContracts: revoked.intent_contracts.items.map(previewedFrom),
      federationTokens: revoked.federation_tokens.items.map(previewedFrom),
      mcpToolPolicies: revoked.mcp_tool_policies.items.map(previewedFrom),
    },
    counts: {
      sessions: revoked.sessions.count,
      credentials: revoked.credentials.count,
      grantsGiven: revoked.grants_given.count,
      grantsReceived: revoked.grants_received.count,
      temporalWindows: revoked.temporal_windows.count,
      intentContracts: revoked.intent_contracts.count,
      federationTokens: revoked.federation_tokens.count,
      mcpToolPolicies: revoked.mcp_tool_policies.count,
    },
    apiKeys: keys.items.map(previewedFrom),
    apiKeyCount: keys.count,
    escalations: escalations.items.map(previewedFrom),
    escalationCount: escalations.count,
  };
}

/** Creates the functions of RevocationService. */
export function createRevocationService(options: RevocationServiceOptions): ServiceDefinition {
  const { logs, database, keys, authenticator } = options;
  const names = new ActorNames(database.pool);
  return defineService(RevocationService, {
    async revokeAgent({ agentId, reason }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      const certificate = await revokeAgent(log, keys, { agentId, reason, by: caller.keyId });
      authenticator.forget(caller.workspaceId);
      return messageFrom(certificate, finderIn(keys, caller.workspaceId));
    },
    async previewRevocation({ agentId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      const state = await log.caughtUp();
      const { nowMs } = log;
      const preview = await previewRevocation(database, state, agentId, nowMs);
      return { agentId, ...previewFrom(preview), at: timestampFromMs(nowMs) };
    },
    async getRevocation({ revocationId }, { caller }) {
      const { certificate, isValid } = await getRevocation(database, keys, caller.workspaceId, revocationId);
      const find = finderIn(keys, caller.workspaceId);
      const nameOf = await names.find(caller.workspaceId, [certificate.body?.revoked_by]);
      const message = await namedFrom(certificate, find, nameOf);
      return { certificate: message, signatureValid: isValid, revokedByName: message.revokedByName };
    },
    async listRevocations(request, { caller }) {
      const page = pageFrom(request, "revocations");
      const { items, next } = await listRevocations(database, caller.workspaceId, page);
      const find = finderIn(keys, caller.workspaceId);
      const nameOf = await names.find(
        caller.workspaceId,
        items.map(({ body }) => body?.revoked_by),
      );
      const revocations = await Promise.all(items.map((item) => namedFrom(item, find, nameOf)));
      return { revocations, nextPageToken: page.tokenAfter(next) };
    },
  });
}
