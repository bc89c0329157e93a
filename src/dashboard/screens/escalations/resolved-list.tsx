import { useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import {
  type Escalation,
  EscalationService,
  EscalationStatus,
  type ListEscalationsResponse,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { AddressChoice, type FilterOption } from "../../kit/address-filter.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { useSession } from "../../session.ts";
import { Outcome } from "./outcome.tsx";

const ROW_HEIGHT = 96;
const PAGE_SIZE = 200;
const idOf = ({ escalationId }: Escalation): string => escalationId;
const resolvedOf = ({ escalations }: ListEscalationsResponse): readonly Escalation[] =>
  escalations.filter(({ status }) => status !== EscalationStatus.PENDING);

/** Causes of a rejection without a person. */
const CAUSES: readonly string[] = ["expiry", "withdrawal"];

/** Returns the choices of the filter by who answered: you, those of the list, and the one that is chosen. */
function useAnsweredBy(items: readonly Escalation[], chosen: string): readonly FilterOption[] {
  const { session } = useSession();
  return useMemo(() => {
    const names = new Map(chosen === "" ? [] : [[chosen, chosen]]);
    for (const { resolvedBy = "", resolvedByName } of items)
      if (resolvedBy !== "" && !CAUSES.includes(resolvedBy)) names.set(resolvedBy, resolvedByName ?? resolvedBy);
    names.delete(session.keyId);
    const others = [...names].map(([word, title]) => ({ word, title: shownText(title, 60) }));
    return [{ word: "", title: "Anyone" }, { word: session.keyId, title: "You" }, ...others];
  }, [items, chosen, session.keyId]);
}

/** Resolved escalations, newest first. Who answered is a filter, kept in the address. */
export function ResolvedList({ agentId }: { readonly agentId: string }) {
  const [parameters] = useSearchParams();
  const resolvedBy = parameters.get("by") ?? "";
  const request = { pageSize: PAGE_SIZE, agentId, resolvedBy };
  const pages = usePages(EscalationService.method.listEscalations, request, resolvedOf);
  return (
    <>
      <search className="filters">
        <AddressChoice
          name="by"
          label="Answered by"
          action="answered-by"
          options={useAnsweredBy(pages.items, resolvedBy)}
          isStep
        />
      </search>
      <PagedList
        pages={pages}
        loading="the escalations"
        empty={<Empty title={resolvedBy === "" ? "Nothing was answered yet" : "They answered nothing"} />}
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Answered escalations"
        row={(escalation) => <ResolvedRow escalation={escalation} />}
      />
    </>
  );
}

/** One resolved escalation with its outcome. */
export function ResolvedRow({ escalation }: { readonly escalation: Escalation }) {
  const { escalationId, actionType, agentId, agentName } = escalation;
  return (
    <div className="resolved">
      <span>
        <Link href={`/escalations/${escalationId}`}>
          <Shown text={actionType} />
        </Link>{" "}
        by{" "}
        <Link href={`/agents/${agentId}`}>
          <Shown text={agentName} />
        </Link>
      </span>
      <Outcome escalation={escalation} />
    </div>
  );
}
