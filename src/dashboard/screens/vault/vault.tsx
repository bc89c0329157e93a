import { Link, Redirect, useSearchParams } from "wouter";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import "../../styles/decision.css";
import "../../styles/decisions.css";
import "../../styles/vault.css";
import { CheckpointCards } from "./checkpoint-card.tsx";
import { useCheckpoint } from "./use-checkpoint.ts";

/** The log as a whole: its signed checkpoint, and the proof that it only grew. */
export function Vault() {
  const [parameters] = useSearchParams();
  // Entries had their addresses here before they had a screen.
  if (parameters.has("entry") || parameters.has("from")) return <Redirect to={`/evidence?${parameters}`} replace />;
  return (
    <ScreenFrame name="vault" title="Vault" actions={<Link href="/evidence">Entries and download of the log</Link>}>
      <Cards />
    </ScreenFrame>
  );
}

function Cards() {
  const { checkpoint, jwks, error, retry } = useCheckpoint();
  return (
    <>
      {error === null ? null : <Fault error={error} onRetry={retry} />}
      {checkpoint === undefined ? (
        error === null && <Loading what="the checkpoint" />
      ) : (
        <CheckpointCards checkpoint={checkpoint} jwks={jwks} />
      )}
    </>
  );
}
