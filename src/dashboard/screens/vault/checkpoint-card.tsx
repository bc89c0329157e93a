import { useMemo } from "react";
import type { GetCheckpointResponse } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { hex } from "../../../verify/bytes.ts";
import { CopyButton } from "../../kit/copy.tsx";
import { DownloadButton } from "../../kit/download.tsx";
import { Scrolled } from "../../kit/scrolled.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Loading } from "../../kit/states.tsx";
import { Hash, StepsView, Verdict } from "../../kit/steps-view.tsx";
import { checkpointSteps } from "../../proof/check-checkpoint.ts";
import { failedStep } from "../../proof/steps.ts";
import { CANNOT_HASH, canHash, useCheck } from "../../proof/use-check.ts";
import { useSession } from "../../session.ts";
import { GrowthCard } from "./growth-card.tsx";

/** Properties of a checkpoint's cards. */
export interface CheckpointProps {
  readonly checkpoint: GetCheckpointResponse;
  readonly jwks: unknown;
}

/** Signed size and root of the log, with the verification of its checkpoint. */
export function CheckpointCards({ checkpoint, jwks }: CheckpointProps) {
  const { workspaceId } = useSession().session;
  const steps = useMemo(() => checkpointSteps({ checkpoint, workspaceId, jwks }, {}), [checkpoint, workspaceId, jwks]);
  const checked = useCheck(steps);
  const isSigned = checked !== undefined && failedStep(checked) === undefined;
  return (
    <div className="split vault-cards">
      <section className="card stack" aria-labelledby="checkpoint-title" data-panel="checkpoint">
        <h2 id="checkpoint-title">Checkpoint</h2>
        <Facts checkpoint={checkpoint} />
        {canHash() ? null : <p className="fault">{CANNOT_HASH}</p>}
        {canHash() ? (
          <div className="stack checkpoint-check">
            {checked === undefined ? (
              <Loading what="the result of the check" />
            ) : (
              <>
                <Verdict steps={checked} />
                <StepsView steps={checked} />
              </>
            )}
          </div>
        ) : null}
        <Note checkpoint={checkpoint} />
      </section>
      {isSigned ? <GrowthCard checkpoint={checkpoint} jwks={jwks} /> : null}
    </div>
  );
}

function Facts({ checkpoint: { origin, treeSize, rootHash } }: Pick<CheckpointProps, "checkpoint">) {
  return (
    <dl className="call-facts">
      <div>
        <dt>Log</dt>
        <dd>
          <Shown text={origin} />
        </dd>
      </div>
      <div>
        <dt>Entries</dt>
        <dd data-size={String(treeSize)}>{treeSize.toLocaleString("en")}</dd>
      </div>
      <div>
        <dt>Root</dt>
        <dd>
          <Hash hash={hex(rootHash)} what="root" />
        </dd>
      </div>
    </dl>
  );
}

function Note({ checkpoint: { note, treeSize } }: Pick<CheckpointProps, "checkpoint">) {
  return (
    <>
      <div className="row is-apart">
        <h3>Signed note</h3>
        <div className="row">
          <CopyButton text={note} what="the note" />
          <DownloadButton action="download-note" name={`checkpoint-${treeSize}.txt`} text={note} title="Download" />
        </div>
      </div>
      <Scrolled label="Signed note" className="scrolled mono">
        <Shown text={note} />
      </Scrolled>
      <p className="hint">
        Keep it: <code>agentctl vault verify --checkpoint checkpoint-{String(treeSize)}.txt</code> proves later that
        nothing of it was changed.
      </p>
    </>
  );
}
