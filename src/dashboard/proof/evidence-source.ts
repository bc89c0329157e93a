import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createClient, type Transport } from "@connectrpc/connect";
import { EnforcementService } from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { VaultService } from "../../../gen/agentcontrol/v1/vault_service_pb.js";
import type { EvidenceSource } from "../../explain/collect-evidence.ts";
import { verifyAnsweredCheckpoint } from "../../verify/checkpoint.ts";
import { publicKeysFromJwks } from "../../verify/public-key.ts";

const PAGE_SIZE = 200;

const timeOf = (text: string | undefined) => (text === undefined ? undefined : timestampFromMs(Date.parse(text)));

/** Asks the service for evidence, with the keys that it publishes. */
export function createEvidenceSource(transport: Transport, jwks: unknown, signal: AbortSignal): EvidenceSource {
  const enforcement = createClient(EnforcementService, transport);
  const vault = createClient(VaultService, transport);
  return {
    async *list({ since, until, agentId = "" }) {
      for (let pageToken: string | undefined = ""; pageToken !== undefined; ) {
        const request = { since: timeOf(since), until: timeOf(until), agentId, pageSize: PAGE_SIZE, pageToken };
        const page: Awaited<ReturnType<typeof enforcement.listDecisions>> = await enforcement.listDecisions(request, {
          signal,
        });
        yield page.decisions.map(({ decisionId }) => decisionId);
        pageToken = page.nextPageToken;
      }
    },
    async checkpoint() {
      const keys = (await publicKeysFromJwks(jwks)) ?? [];
      return verifyAnsweredCheckpoint(await vault.getCheckpoint({}, { signal }), keys);
    },
    async decision(decisionId) {
      const { receipt, keyName } = await enforcement.getDecision({ decisionId }, { signal });
      return { index: Number(receipt?.index ?? -1n), body: receipt?.canonicalBody ?? "", keyName };
    },
    async auditPath(index, treeSize) {
      const request = { index: BigInt(index), treeSize: BigInt(treeSize) };
      return (await vault.getInclusionProof(request, { signal })).auditPath;
    },
  };
}
