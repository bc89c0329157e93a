import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { type GetCheckpointResponse, VaultService } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { useKeySet } from "../../proof/use-key-set.ts";

/** Milliseconds between two reads of the checkpoint. */
const REFRESH_MS = 15_000;

/** The newest checkpoint and the published keys; undefined until both are read. */
export interface CheckpointQuery {
  readonly checkpoint: GetCheckpointResponse | undefined;
  readonly jwks: unknown;
  readonly error: unknown;
  readonly retry: () => void;
}

/** Reads the checkpoint of the log, and the keys that may have signed it, again and again. */
export function useCheckpoint(): CheckpointQuery {
  const query = useQuery(
    VaultService.method.getCheckpoint,
    {},
    { refetchInterval: REFRESH_MS, placeholderData: keepPreviousData },
  );
  const keys = useKeySet();
  const isRead = query.data !== undefined && keys.data !== undefined;
  return {
    checkpoint: isRead ? query.data : undefined,
    jwks: keys.data,
    error: query.error ?? keys.error,
    retry: () => {
      void query.refetch();
      void keys.refetch();
    },
  };
}
