import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useCallback, useEffect, useState } from "react";
import { VaultService } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { parseCheckpoint } from "../../../verify/checkpoint.ts";
import { Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { DownloadButton } from "../../kit/download.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { StepsView } from "../../kit/steps-view.tsx";
import { exactText, isoText, useZone } from "../../kit/zone.ts";
import { consistencySteps } from "../../proof/check-consistency.ts";
import { forget, type KeptCheckpoint, keep, readKept } from "../../proof/kept-checkpoint.ts";
import { type CheckedStep, failedStep, runSteps } from "../../proof/steps.ts";
import { useSession } from "../../session.ts";
import type { CheckpointProps } from "./checkpoint-card.tsx";

/** Result of comparing with the kept checkpoint; `kept` is undefined on the first visit. */
interface Growth {
  readonly kept: KeptCheckpoint | undefined;
  readonly steps: readonly CheckedStep[];
}

type ProveGrowth = (from: number, to: number) => ReturnType<ReturnType<typeof clientOf>["getConsistencyProof"]>;
const clientOf = (transport: ReturnType<typeof useTransport>) => createClient(VaultService, transport);

const sizeOf = (note: string): number => {
  try {
    return parseCheckpoint(note).treeSize;
  } catch {
    return 0;
  }
};

/** Compares a verified checkpoint with the kept one, and replaces it if the log only grew. */
async function compareWithKept(workspaceId: string, note: string, jwks: unknown, prove: ProveGrowth): Promise<Growth> {
  const kept = readKept(workspaceId);
  if (kept === undefined) {
    keep(workspaceId, note);
    return { kept, steps: [] };
  }
  const [from, to] = [sizeOf(kept.note), sizeOf(note)];
  const proof = from > 0 && from < to ? await prove(from, to) : undefined;
  const steps = await runSteps(consistencySteps({ earlierNote: kept.note, laterNote: note, proof, jwks }));
  if (failedStep(steps) === undefined) keep(workspaceId, note);
  return { kept, steps };
}

/** Consistency of the log with the checkpoint that this browser kept. */
export function GrowthCard({ checkpoint: { note }, jwks }: CheckpointProps) {
  const { workspaceId } = useSession().session;
  const transport = useTransport();
  const [growth, setGrowth] = useState<Growth>();
  const [error, setError] = useState<unknown>();
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt compares once more
  useEffect(() => {
    let isGone = false;
    const prove: ProveGrowth = (from, to) =>
      clientOf(transport).getConsistencyProof({ from: BigInt(from), to: BigInt(to) });
    compareWithKept(workspaceId, note, jwks, prove).then(
      (result) => !isGone && setGrowth(result),
      (fault: unknown) => !isGone && setError(fault),
    );
    return () => {
      isGone = true;
    };
  }, [workspaceId, note, jwks, transport, attempt]);
  const again = useCallback(() => {
    setError(undefined);
    setAttempt((count) => count + 1);
  }, []);
  return (
    <section className="card stack" aria-labelledby="growth-title" data-panel="growth">
      <h2 id="growth-title">Since this browser looked last</h2>
      {error === undefined ? null : <Fault error={error} onRetry={again} />}
      {growth === undefined ? (
        error === undefined && <Loading what="the proof of growth" />
      ) : (
        <GrowthView growth={growth} note={note} onForgotten={again} />
      )}
    </section>
  );
}

interface GrowthViewProps {
  readonly growth: Growth;
  readonly note: string;
  readonly onForgotten: () => void;
}

function GrowthView({ growth: { kept, steps }, note, onForgotten }: GrowthViewProps) {
  const [zone] = useZone();
  if (kept === undefined) {
    return (
      <p data-growth="first">
        This browser had kept no checkpoint of this log. It kept this one now, and compares with it at the next visit.
      </p>
    );
  }
  const added = sizeOf(note) - sizeOf(kept.note);
  const at = exactText(kept.keptAtMs, zone);
  if (failedStep(steps) !== undefined) return <Alarm kept={kept} steps={steps} at={at} onForgotten={onForgotten} />;
  return (
    <>
      <p data-growth="holds">
        {added === 0
          ? "Nothing was appended, and nothing changed."
          : `${added.toLocaleString("en")} ${added === 1 ? "entry was" : "entries were"} appended, and nothing before was changed.`}{" "}
        <span className="hint">
          Kept at <time dateTime={isoText(kept.keptAtMs, "utc")}>{at}</time>
        </span>
      </p>
      <StepsView steps={steps} />
    </>
  );
}

interface AlarmProps {
  readonly kept: KeptCheckpoint;
  readonly steps: readonly CheckedStep[];
  readonly at: string;
  readonly onForgotten: () => void;
}

/** Warns that the log is not the one seen before. */
function Alarm({ kept, steps, at, onForgotten }: AlarmProps) {
  const { workspaceId } = useSession().session;
  return (
    <>
      <div className="fault" role="alert" data-growth="fails">
        <p>
          <strong>This log does not continue the one that this browser saw at {at}.</strong>
        </p>
        <p>
          Somebody may have rewritten it. Download the kept checkpoint, keep it safe, and have the log verified:{" "}
          <code>agentctl vault verify --checkpoint kept-checkpoint.txt</code>
        </p>
      </div>
      <StepsView steps={steps} />
      <div className="row">
        <DownloadButton
          action="download-kept"
          name="kept-checkpoint.txt"
          text={kept.note}
          title="Download the kept checkpoint"
        />
        <DialogButton action="forget" tone="danger" label="Forget it">
          {(close) => (
            <Confirm
              title="Forget the kept checkpoint?"
              submit="Forget it"
              change={async () => forget(workspaceId)}
              onDone={onForgotten}
              onClose={close}
            >
              <p>
                The alarm goes away, and this browser trusts the log as it is now. Do this only if you know why the log
                was replaced, as by a restored backup or another name of the service.
              </p>
            </Confirm>
          )}
        </DialogButton>
      </div>
    </>
  );
}
