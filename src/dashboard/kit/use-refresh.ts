import type { DescMethodUnary } from "@bufbuild/protobuf";
import { createConnectQueryKey } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

/** Returns the function that reads again what methods answered, on whatever screen it is shown. */
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
