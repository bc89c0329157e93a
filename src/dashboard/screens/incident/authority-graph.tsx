import { createQueryOptions, useTransport } from "@connectrpc/connect-query";
import { useQueries } from "@tanstack/react-query";
import { Link } from "wouter";
import type { Agent } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { type PreviewedItem, RevocationService } from "../../../../gen/agentcontrol/v1/revocation_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";

/** Grants of the chosen agents that end with them, as edges between agents. */
interface Lending {
  readonly grants: readonly PreviewedItem[];
  readonly names: ReadonlyMap<string, string>;
  /** Grants that end and are not among `grants`. */
  readonly hidden: number;
}

function useLending(agents: readonly Agent[]) {
  const transport = useTransport();
  const method = RevocationService.method.previewRevocation;
  const previews = useQueries({
    queries: agents.map(({ agentId }) => createQueryOptions(method, { agentId }, { transport })),
  });
  const found = previews.flatMap(({ data }) => [
    ...(data?.revoked?.grantsGiven ?? []),
    ...(data?.revoked?.grantsReceived ?? []),
  ]);
  const grants = [...new Map(found.map((grant) => [grant.id, grant])).values()];
  const counted = previews.reduce(
    (sum, { data }) => sum + (data?.counts?.grantsGiven ?? 0) + (data?.counts?.grantsReceived ?? 0),
    0,
  );
  const names = new Map(agents.map(({ agentId, name }) => [agentId, name]));
  for (const { granteeAgentId, name } of grants) {
    if (granteeAgentId !== undefined && !names.has(granteeAgentId)) names.set(granteeAgentId, name);
  }
  return {
    lending: { grants, names, hidden: counted - found.length } satisfies Lending,
    error: previews.map(({ error }) => error).find((error) => error !== null) ?? null,
    isPending: previews.some(({ isPending }) => isPending),
    retry: () => previews.forEach((preview) => void preview.refetch()),
  };
}

/** Agents that lose authority when others are revoked: below each lender its borrowers, and theirs. */
export function AuthorityGraph({ agents }: { readonly agents: readonly Agent[] }) {
  const { lending, error, isPending, retry } = useLending(agents);
  if (error !== null) return <Fault error={error} onRetry={retry} />;
  if (isPending) return <Loading what="who loses authority" />;
  const losing = new Set(lending.grants.flatMap(({ granteeAgentId }) => granteeAgentId ?? []));
  for (const { agentId } of agents) losing.delete(agentId);
  return (
    <>
      <p className="hint" data-losing={losing.size}>
        {losing.size === 0
          ? "Nobody else acts by a grant that ends with them."
          : `${countText(losing.size, "other agent loses", "other agents lose")} authority that ends with them.`}
        {lending.hidden > 0 ? ` ${lending.hidden.toLocaleString("en")} more grants are not shown.` : null}
      </p>
      <ul className="lending">
        {agents.map(({ agentId }) => (
          <Lender key={agentId} agentId={agentId} lending={lending} above={[]} />
        ))}
      </ul>
    </>
  );
}

interface LenderProps {
  readonly agentId: string;
  readonly lending: Lending;
  /** Agents on the way to this one, which are not followed again. */
  readonly above: readonly string[];
}

function Lender({ agentId, lending, above }: LenderProps) {
  const { grants, names } = lending;
  const path = [...above, agentId];
  const lent = grants.filter(({ grantorAgentId }) => grantorAgentId === agentId);
  const to = [...new Set(lent.flatMap(({ granteeAgentId }) => granteeAgentId ?? []))];
  return (
    <li data-id={agentId}>
      <Link href={`/agents/${agentId}`}>
        <Shown text={names.get(agentId) ?? agentId} />
      </Link>
      {to.length === 0 ? null : <span className="hint"> lent to</span>}
      {to.length === 0 ? null : (
        <ul>
          {to.map((grantee) =>
            path.includes(grantee) ? (
              <li key={grantee} className="hint">
                <Shown text={names.get(grantee) ?? grantee} />, as above
              </li>
            ) : (
              <Lender key={grantee} agentId={grantee} lending={lending} above={path} />
            ),
          )}
        </ul>
      )}
    </li>
  );
}
