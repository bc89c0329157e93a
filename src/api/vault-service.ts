import { type GetInclusionProofRequest, VaultService } from "../../gen/agentcontrol/v1/vault_service_pb.js";
import { invalidField } from "../errors.ts";
import type { Checkpoint } from "../log/checkpoint.ts";
import type { SealedEntry, Vault } from "../log/vault.ts";
import type { ActorNames } from "../registry/actor-names.ts";
import { EntryKind } from "../state/types.ts";
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

const KEY = '"key_id":"';
/** Members that name the author of an entry, by its kind. */
const AUTHORS: Readonly<Record<number, string>> = {
  [EntryKind.DECISION]: KEY,
  [EntryKind.UNCOUNTED_DECISION]: KEY,
  [EntryKind.CLAIM]: '"claimed_by":"',
  [EntryKind.OUTCOME]: '"reported_by":"',
};

/** Maximum characters of an author's id. */
const MAX_AUTHOR = 1_000;

/**
 * Returns the id of the author of an entry: who made a change, the key of a decision, who claimed or reported. Entries may be large, so the text is
 * searched instead of parsed. Its members are sorted: none of that name lies before the author of a change, or after the key of
 * a decision.
 */
function authorOf({ body, kind }: SealedEntry): string | undefined {
  const mark = AUTHORS[kind] ?? '"by":"';
  const isDecision = mark === KEY;
  const at = isDecision ? body.lastIndexOf(mark) : body.indexOf(mark);
  if (at < 0) return undefined;
  const start = at + mark.length;
  const [author, ...rest] = body.slice(start, start + MAX_AUTHOR).split('"', 2);
  return rest.length === 0 ? undefined : author;
}

/** Creates the functions of VaultService. `names`: names of the authors of entries; by default entries come without them. */
export function createVaultService(vault: Vault, names?: Pick<ActorNames, "find">): ServiceDefinition {
  return defineService(VaultService, {
    async getCheckpoint({ treeSize }, { caller }) {
      return messageFrom(await vault.checkpoint(caller.workspaceId, optionalNumber(treeSize)));
    },

    async listEntries(request, { caller }) {
      const range = { from: Number(request.from), to: optionalNumber(request.to) };
      const page = pageFrom(request, "entries", range.from, range.to);
      const from = page.after ?? range.from;
      const { entries, next } = await vault.entries(caller.workspaceId, { ...range, from }, page.size);
      const authors = entries.map(authorOf);
      const nameOf = await names?.find(caller.workspaceId, authors);
      return {
        entries: entries.map(({ seq, leafHash, body }, at) => {
          return { index: BigInt(seq), leafHash, body, authorName: nameOf?.(authors[at]) };
        }),
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
