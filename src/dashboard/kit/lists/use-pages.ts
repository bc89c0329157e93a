import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { type InfiniteData, keepPreviousData, type UseInfiniteQueryResult } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";

type Paged = { readonly nextPageToken?: string | undefined };

/** A list that is read page by page. */
export interface Pages<T> {
  readonly items: readonly T[];
  /** True until the first page was read. */
  readonly isPending: boolean;
  /** True while the items are those of the request before, until the first page of this one was read. */
  readonly isPrevious: boolean;
  /** Error of the last attempt. */
  readonly error: unknown;
  /** Reads the next page; undefined after the last. */
  readonly readMore: (() => void) | undefined;
  readonly readAgain: () => void;
}

/** How a list is read. */
export interface PagesOptions {
  /** Shows the items of the request before until those of a new one are there. Default false. */
  readonly keepsPrevious?: boolean;
}

/** Reads a list page by page. `itemsOf` MUST be the same function at every call. */
export function usePages<I extends DescMessage, O extends DescMessage, T>(
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
  itemsOf: (page: MessageShape<O>) => readonly T[],
  { keepsPrevious = false }: PagesOptions = {},
): Pages<T> {
  const input = { ...request, pageToken: "" } as never;
  const query = useInfiniteQuery(method, input, {
    pageParamKey: "pageToken" as never,
    getNextPageParam: (page) => (page as Paged).nextPageToken as never,
    ...(keepsPrevious && { placeholderData: keepPreviousData }),
  });
  return usePagesOf(query as UseInfiniteQueryResult<InfiniteData<MessageShape<O>>>, itemsOf);
}

/** Makes a list from the pages of a query. `itemsOf` MUST be the same function at every call. */
export function usePagesOf<P, T>(
  query: UseInfiniteQueryResult<InfiniteData<P>>,
  itemsOf: (page: P) => readonly T[],
): Pages<T> {
  const { data, isPending, isPlaceholderData, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = query;
  const items = useMemo(() => data?.pages.flatMap((page) => itemsOf(page)) ?? [], [data, itemsOf]);
  const next = useCallback(() => {
    if (!isFetchingNextPage) void fetchNextPage();
  }, [isFetchingNextPage, fetchNextPage]);
  return {
    items,
    isPending,
    isPrevious: isPlaceholderData,
    error,
    readMore: hasNextPage ? next : undefined,
    readAgain: () => void refetch(),
  };
}
