import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useSearchParams } from "wouter";
import { VaultService } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useKeySet } from "../../proof/use-key-set.ts";
import "../../styles/decision.css";
import "../../styles/decisions.css";
import "../../styles/vault.css";
import { CheckpointCards } from "./checkpoint-card.tsx";
import { EntryDialog } from "./entry-dialog.tsx";
import { EntryList, indexIn } from "./entry-list.tsx";

/** Milliseconds between two reads of the checkpoint. */
const REFRESH_MS = 15_000;

/** Evidence of the log: its signed checkpoint, growth, entries and proofs. */
export function Vault() {
  const [parameters, setParameters] = useSearchParams();
  const query = useQuery(
    VaultService.method.getCheckpoint,
    {},
    { refetchInterval: REFRESH_MS, placeholderData: keepPreviousData },
  );
  const keys = useKeySet();
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
  const error = query.error ?? keys.error;
  const retry = (): void => {
    void query.refetch();
    void keys.refetch();
  };
  return (
    <ScreenFrame name="vault" title="Vault">
      {error === null ? null : <Fault error={error} onRetry={retry} />}
      {query.data === undefined || keys.data === undefined ? (
        error === null && <Loading what="the checkpoint" />
      ) : (
        <>
          <CheckpointCards checkpoint={query.data} jwks={keys.data} />
          <EntryList size={Number(query.data.treeSize)} />
          {entry === undefined ? null : <EntryDialog key={entry} index={entry} jwks={keys.data} onClose={close} />}
        </>
      )}
    </ScreenFrame>
  );
}
