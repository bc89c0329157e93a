import { type GetInclusionProofRequest, VaultService } from "../../gen/agentcontrol/v1/vault_service_pb.js";
import { invalidField } from "../errors.ts";
import type { Checkpoint } from "../log/checkpoint.ts";
import type { Vault } from "../log/vault.ts";
import { optionalNumber } from "./field-values.ts";
import { pageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

const messageFrom = ({ treeSize, ...checkpoint }: Checkpoint) => ({ ...checkpoint, treeSize: BigInt(treeSize) });

/** Returns the decision id or the index that a request names. Throws INVALID_FIELD unless it names exactly one. */
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
      return messageFrom(await vault.checkpoint(caller.workspaceId, optionalNumber(treeSize)));
    },

    async listEntries(request, { caller }) {
      const range = { from: Number(request.from), to: optionalNumber(request.to) };
      const page = pageFrom(request, "entries", range.from, range.to);
      const from = page.after ?? range.from;
      const { entries, next } = await vault.entries(caller.workspaceId, { ...range, from }, page.size);
      return {
        entries: entries.map(({ seq, leafHash, body }) => ({ index: BigInt(seq), leafHash, body })),
        nextPageToken: page.tokenAfter(next),
      };
    },

    async getInclusionProof(request, { caller }) {
      const entry = entryFrom(request);
      const proof = await vault.inclusion(caller.workspaceId, entry, optionalNumber(request.treeSize));
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
      const proof = await vault.consistency(caller.workspaceId, Number(request.from), optionalNumber(request.to));
      const { from, to, path, fromRoot, toRoot } = proof;
      return { from: BigInt(from), to: BigInt(to), path: [...path], fromRoot, toRoot };
    },
  });
}
