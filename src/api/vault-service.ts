import { type GetInclusionProofRequest, VaultService } from "../../gen/agentcontrol/v1/vault_service_pb.js";
import { invalidField } from "../errors.ts";
import type { Checkpoint } from "../log/checkpoint.ts";
import type { Vault } from "../log/vault.ts";
import { decodePageToken, nextPageToken, pageKind, pageSizeFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

const numberFrom = (value: bigint | undefined): number | undefined => (value === undefined ? undefined : Number(value));

const messageFrom = ({ treeSize, ...checkpoint }: Checkpoint) => ({ ...checkpoint, treeSize: BigInt(treeSize) });

/** The entry that a request is about: a decision's id or an index. Throws INVALID_FIELD for both and for neither. */
function entryFrom({ decisionId, index }: GetInclusionProofRequest): string | number {
  if (decisionId !== undefined && index !== undefined)
    throw invalidField("index", "must be left out when `decision_id` is given");
  if (decisionId !== undefined) return decisionId;
  if (index !== undefined) return Number(index);
  throw invalidField("decision_id", "must be given, or `index`");
}

/** Creates the functions of VaultService. */
export function createVaultService(vault: Vault): ServiceDefinition {
  return defineService(VaultService, {
    async getCheckpoint({ treeSize }, { caller }) {
      return messageFrom(await vault.checkpoint(caller.workspaceId, numberFrom(treeSize)));
    },

    async listEntries(request, { caller }) {
      const range = { from: Number(request.from), to: numberFrom(request.to) };
      const kind = pageKind("entries", range.from, range.to);
      const from = decodePageToken(kind, request.pageToken) ?? range.from;
      const { entries, next } = await vault.entries(caller.workspaceId, { ...range, from }, pageSizeFrom(request));
      return {
        entries: entries.map(({ seq, leafHash, body }) => ({ index: BigInt(seq), leafHash, body })),
        nextPageToken: nextPageToken(kind, next),
      };
    },

    async getInclusionProof(request, { caller }) {
      const entry = entryFrom(request);
      const proof = await vault.inclusion(caller.workspaceId, entry, numberFrom(request.treeSize));
      const { index, leafHash, path, checkpoint } = proof;
      return {
        leafIndex: BigInt(index),
        leafHash,
        treeSize: BigInt(checkpoint.treeSize),
        auditPath: [...path],
        rootHash: checkpoint.rootHash,
        checkpoint: messageFrom(checkpoint),
      };
    },

    async getConsistencyProof(request, { caller }) {
      const proof = await vault.consistency(caller.workspaceId, Number(request.from), numberFrom(request.to));
      const { from, to, path, fromRoot, toRoot } = proof;
      return { from: BigInt(from), to: BigInt(to), path: [...path], fromRoot, toRoot };
    },
  });
}
