import { type Client, createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type VaultEntry, VaultService } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { type Pages, usePagesOf } from "../../kit/lists/use-pages.ts";

const PAGE_SIZE = 100;

interface EntryPage {
  readonly entries: readonly VaultEntry[];
  /** Index of the oldest entry of the page. */
  readonly from: number;
}

const entriesOf = ({ entries }: EntryPage): readonly VaultEntry[] => entries;

/** Reads the entries of a range; the service may spread them over several pages. */
async function readRange(client: Client<typeof VaultService>, from: number, to: number, signal: AbortSignal) {
  const entries: VaultEntry[] = [];
  for (let pageToken: string | undefined = ""; pageToken !== undefined; ) {
    const request = { from: BigInt(from), to: BigInt(to), pageSize: PAGE_SIZE, pageToken };
    const page: Awaited<ReturnType<typeof client.listEntries>> = await client.listEntries(request, { signal });
    entries.push(...page.entries);
    pageToken = page.nextPageToken;
  }
  return entries;
}

/** Lists the entries below an index, newest first. */
export function useEntries(below: number): Pages<VaultEntry> {
  const transport = useTransport();
  const client = useMemo(() => createClient(VaultService, transport), [transport]);
  const query = useInfiniteQuery({
    queryKey: ["vault entries", below],
    initialPageParam: below,
    queryFn: async ({ pageParam: to, signal }): Promise<EntryPage> => {
      const from = Math.max(0, to - PAGE_SIZE);
      const entries = to === 0 ? [] : await readRange(client, from, to, signal);
      return { entries: entries.reverse(), from };
    },
    getNextPageParam: ({ from }: EntryPage) => (from > 0 ? from : undefined),
    // Entries never change.
    staleTime: Number.POSITIVE_INFINITY,
  });
  return usePagesOf(query, entriesOf);
}
