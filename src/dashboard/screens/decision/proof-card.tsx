import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { useMemo } from "react";
import {
  type GetDecisionResponse,
  GetDecisionResponseSchema,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type GetInclusionProofResponse, VaultService } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { verifyCheckpoint } from "../../../verify/checkpoint.ts";
import { publicKeysFromJwks } from "../../../verify/public-key.ts";
import { Button } from "../../kit/button.tsx";
import { saveFile } from "../../kit/download.tsx";
import { ProofAddresses } from "../../kit/proof-addresses.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { FoldedSteps } from "../../kit/steps-view.tsx";
import { decisionBundle } from "../../proof/bundle-text.ts";
import { type DecisionEvidence, decisionSteps } from "../../proof/check-decision.ts";
import { failedStep, type Step } from "../../proof/steps.ts";
import { CANNOT_HASH, canHash, useCheck } from "../../proof/use-check.ts";
import { useKeySet } from "../../proof/use-key-set.ts";
import { useSession } from "../../session.ts";

/** Properties of the proof card. */
export interface ProofCardProps {
  readonly decisionId: string;
  readonly response: GetDecisionResponse;
}

/** Proves in this browser that the log holds the decision as it is shown. */
export function ProofCard({ decisionId, response }: ProofCardProps) {
  const proof = useQuery(VaultService.method.getInclusionProof, { decisionId }, { refetchOnWindowFocus: false });
  const keys = useKeySet();
  const error = proof.error ?? keys.error;
  const retry = (): void => {
    void proof.refetch();
    void keys.refetch();
  };
  return (
    <section className="card stack proof" aria-labelledby="proof-title" data-part="proof">
      <h2 id="proof-title">Proof</h2>
      {error === null ? null : <Fault error={error} onRetry={retry} />}
      {proof.data === undefined || keys.data === undefined ? (
        error === null && <Loading what="the proof" />
      ) : (
        <Checked decisionId={decisionId} response={response} proof={proof.data} jwks={keys.data} />
      )}
    </section>
  );
}

interface CheckedProps extends ProofCardProps {
  readonly proof: GetInclusionProofResponse;
  readonly jwks: unknown;
}

function Checked({ decisionId, response, proof, jwks }: CheckedProps) {
  const { workspaceId } = useSession().session;
  const steps = useMemo<readonly Step[] | undefined>(() => {
    const { receipt } = response;
    if (receipt === undefined) return undefined;
    const evidence: DecisionEvidence = {
      decisionId,
      workspaceId,
      proof,
      jwks,
      answer: toJson(GetDecisionResponseSchema, response, { useProtoFieldName: true }) as JsonObject,
      entry: { index: receipt.index, leafHash: receipt.leafHash, body: receipt.canonicalBody },
    };
    return decisionSteps(evidence);
  }, [decisionId, response, proof, jwks, workspaceId]);
  const checked = useCheck(steps);
  if (!canHash()) return <p className="fault">{CANNOT_HASH}</p>;
  if (checked === undefined) return <Loading what="the result of the check" />;
  return (
    <>
      <FoldedSteps steps={checked} />
      {failedStep(checked) === undefined ? (
        <BundleButton decisionId={decisionId} response={response} proof={proof} jwks={jwks} />
      ) : null}
      <ProofAddresses
        addresses={[
          { title: "Proof", path: `/v1/enforce/vault/proofs/inclusion?decision_id=${decisionId}` },
          { title: "Checkpoint", path: "/v1/enforce/vault/checkpoint" },
        ]}
      />
    </>
  );
}

/** Saves the decision with its proof, for `agentctl vault verify`. */
function BundleButton({ decisionId, response, proof, jwks }: CheckedProps) {
  const note = proof.checkpoint?.note ?? "";
  const save = async (): Promise<void> => {
    const { key } = await verifyCheckpoint(note, (await publicKeysFromJwks(jwks)) ?? []);
    const body = response.receipt?.canonicalBody ?? "";
    saveFile(`${decisionId}.json`, [decisionBundle(body, proof, note, key)]);
  };
  return (
    <div className="row is-apart">
      <span className="hint">
        Computed in this browser, from the sealed text to the signature. Verify it anywhere:{" "}
        <code>agentctl vault verify {decisionId}.json</code>
      </span>
      <Button action="download-proof" onClick={() => void save()}>
        Download the proof
      </Button>
    </div>
  );
}
