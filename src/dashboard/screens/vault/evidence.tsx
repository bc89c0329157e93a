import { Link, useSearchParams } from "wouter";
import type { GetCheckpointResponse } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import "../../styles/decision.css";
import "../../styles/decisions.css";
import "../../styles/vault.css";
import { EntryDialog } from "./entry-dialog.tsx";
import { EntryList, indexIn } from "./entry-list.tsx";
import { LogDownload } from "./log-download.tsx";
import { ReportCard } from "./report-card.tsx";
import { useCheckpoint } from "./use-checkpoint.ts";

/** Entries of the log, each with its proof, a report of some, and the whole log as a file. */
export function Evidence() {
  const { checkpoint, jwks, error, retry } = useCheckpoint();
  return (
    <ScreenFrame name="evidence" title="Evidence" actions={<Link href="/vault">Check the checkpoint</Link>}>
      {error === null ? null : <Fault error={error} onRetry={retry} />}
      {checkpoint === undefined ? (
        error === null && <Loading what="the entries" />
      ) : (
        <Parts checkpoint={checkpoint} jwks={jwks} />
      )}
    </ScreenFrame>
  );
}

function Parts({ checkpoint, jwks }: { readonly checkpoint: GetCheckpointResponse; readonly jwks: unknown }) {
  const [parameters, setParameters] = useSearchParams();
  const entry = indexIn(parameters, "entry");
  const close = (): void =>
    setParameters(
      (before) => {
        const next = new URLSearchParams(before);
        next.delete("entry");
        return next;
      },
      { replace: true },
    );
  return (
    <>
      <EntryList size={Number(checkpoint.treeSize)} />
      <LogDownload checkpoint={checkpoint} jwks={jwks} />
      <ReportCard jwks={jwks} />
      {entry === undefined ? null : <EntryDialog key={entry} index={entry} jwks={jwks} onClose={close} />}
    </>
  );
}
