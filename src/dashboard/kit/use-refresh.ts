import type { DescMethodUnary } from "@bufbuild/protobuf";
import { createConnectQueryKey } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

/** Returns the function that reads the answers of methods again, on every screen that shows them. */
export function useRefresh(): (...methods: readonly DescMethodUnary[]) => void {
  const queries = useQueryClient();
  return useCallback(
    (...methods) => {
      for (const schema of methods) {
        void queries.invalidateQueries({ queryKey: createConnectQueryKey({ schema, cardinality: undefined }) });
      }
    },
    [queries],
  );
}
