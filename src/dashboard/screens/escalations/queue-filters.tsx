import { useQuery } from "@connectrpc/connect-query";
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { AddressChoice, AddressSearch } from "../../kit/address-filter.tsx";
import { Button } from "../../kit/button.tsx";
import { useMayChange } from "../../session.ts";
import { FILTERS, mandateOf, optionsOf, type QueueView } from "./queue-view.ts";

const ORDERS = [
  { word: "", title: "Most urgent" },
  { word: "amount", title: "Largest amount" },
  { word: "trust", title: "Lowest trust" },
  { word: "age", title: "Oldest" },
];
const GROUPS = [
  { word: "", title: "No groups" },
  { word: "mandate", title: "By mandate" },
  { word: "agent", title: "By agent" },
];
const WAITS_FOR = [
  { word: "", title: "For anybody" },
  { word: "true", title: "For me" },
];
const STALE_MS = 300_000;

/** Properties of the filters. */
export interface QueueFiltersProps {
  readonly view: QueueView;
  readonly pending: readonly Escalation[];
}

/** Search, order, groups and filters of the queue, kept in the address. Back takes a choice back. */
export function QueueFilters({ view, pending }: QueueFiltersProps) {
  const [, setParameters] = useSearchParams();
  const mayChange = useMayChange();
  const isKnown = view.agent === "" || pending.some(({ agentId }) => agentId === view.agent);
  const { data } = useQuery(
    AgentService.method.getAgent,
    { agentId: view.agent },
    { enabled: !isKnown, staleTime: STALE_MS },
  );
  const chosen = isKnown ? undefined : data?.agent;
  const agents = useMemo(() => {
    const named = pending.map(({ agentId, agentName }) => ({ id: agentId, name: agentName }));
    if (chosen !== undefined) named.push({ id: chosen.agentId, name: chosen.name });
    return optionsOf("Any agent", named, view.agent);
  }, [pending, chosen, view.agent]);
  const mandates = useMemo(
    () => optionsOf("Any mandate", pending.map(mandateOf), view.mandate),
    [pending, view.mandate],
  );
  const actions = useMemo(() => {
    const words = pending.flatMap(({ actionType, tool }) => [actionType, ...(tool === undefined ? [] : [tool])]);
    return optionsOf(
      "Any action",
      words.map((word) => ({ id: word, name: word })),
      view.action,
    );
  }, [pending, view.action]);
  const isFiltered = FILTERS.some((name) => view[name] !== "");
  const clear = (): void =>
    setParameters((before) => {
      const after = new URLSearchParams(before);
      for (const name of FILTERS) after.delete(name);
      return after;
    });
  return (
    <search className="filters queue-filters">
      <AddressSearch name="q" label="Search" action="filter" placeholder="Search" />
      <AddressChoice name="order" label="Order" action="order" options={ORDERS} isStep />
      <AddressChoice name="group" label="Groups" action="group" options={GROUPS} isStep />
      {mayChange ? <AddressChoice name="mine" label="Waits for" action="filter" options={WAITS_FOR} isStep /> : null}
      <AddressChoice name="agent" label="Agent" action="filter" options={agents} isStep />
      <AddressChoice name="mandate" label="Mandate" action="filter" options={mandates} isStep />
      <AddressChoice name="action" label="Action or tool" action="filter" options={actions} isStep />
      {isFiltered ? (
        <Button action="clear-filters" tone="quiet" onClick={clear}>
          Clear
        </Button>
      ) : null}
    </search>
  );
}
