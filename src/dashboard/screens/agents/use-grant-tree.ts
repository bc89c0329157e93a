import { createConnectQueryKey, createQueryOptions, useTransport } from "@connectrpc/connect-query";
import { useQueries, useQueryClient } from "@tanstack/react-query";
import {
  AuthorityService,
  type Grant,
  type ListGrantsResponse,
} from "../../../../gen/agentcontrol/v1/authority_service_pb.js";

const READ = 500;
/** Grants expanded at first. */
const OPENED = 12;

/** Grants made from a grant. */
export interface PassedOn {
  readonly isOpen: boolean;
  /** Undefined while they are read. */
  readonly children: readonly Grant[] | undefined;
  /** True if more exist than are shown. */
  readonly hasMore: boolean;
}

/** Reads the children of every expanded grant. `chosen` holds the grants that were expanded and collapsed by hand. */
export function useGrantTree(
  roots: readonly string[],
  chosen: ReadonlyMap<string, boolean>,
): ReadonlyMap<string, PassedOn> {
  const transport = useTransport();
  const queries = useQueryClient();
  const schema = AuthorityService.method.listGrants;
  const inputOf = (parentGrantId: string) => ({ parentGrantId, pageSize: READ });
  const answerOf = (parentGrantId: string): ListGrantsResponse | undefined => {
    const input = inputOf(parentGrantId);
    return queries.getQueryData<ListGrantsResponse>(
      createConnectQueryKey({ schema, input, transport, cardinality: "finite" }),
    );
  };
  const tree = new Map<string, PassedOn>();
  let opened = 0;
  const visit = (grantId: string): void => {
    if (tree.has(grantId)) return;
    const isOpen = chosen.get(grantId) ?? opened < OPENED;
    if (isOpen) opened++;
    const answer = isOpen ? answerOf(grantId) : undefined;
    tree.set(grantId, { isOpen, children: answer?.grants, hasMore: answer?.nextPageToken !== undefined });
    for (const child of answer?.grants ?? []) visit(child.grantId);
  };
  for (const root of roots) visit(root);
  const open = [...tree].filter(([, { isOpen }]) => isOpen).map(([grantId]) => grantId);
  // Each answer renders the screen again, which then expands the grants in it.
  useQueries({ queries: open.map((grantId) => createQueryOptions(schema, inputOf(grantId), { transport })) });
  return tree;
}
