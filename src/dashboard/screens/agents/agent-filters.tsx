import { useSearchParams } from "wouter";
import { AgentOrder, AgentStatus } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { AddressChoice, AddressSearch } from "../../kit/address-filter.tsx";
import { Button } from "../../kit/button.tsx";
import { shownText } from "../../kit/shown.tsx";
import { useDepartments } from "./use-departments.ts";

const STATUSES: readonly { readonly word: string; readonly title: string; readonly status: AgentStatus }[] = [
  { word: "", title: "Any status", status: AgentStatus.UNSPECIFIED },
  { word: "active", title: "Active", status: AgentStatus.ACTIVE },
  { word: "deactivated", title: "Deactivated", status: AgentStatus.DEACTIVATED },
  { word: "revoked", title: "Revoked", status: AgentStatus.REVOKED },
];
const ORDERS: readonly { readonly word: string; readonly title: string; readonly order: AgentOrder }[] = [
  { word: "", title: "Newest first", order: AgentOrder.NEWEST },
  { word: "name", title: "By name", order: AgentOrder.NAME },
  { word: "lowest_trust", title: "Lowest trust first", order: AgentOrder.LOWEST_TRUST },
  { word: "highest_trust", title: "Highest trust first", order: AgentOrder.HIGHEST_TRUST },
];

/** Returns the status selected in the address. */
export const statusOf = (parameters: URLSearchParams): AgentStatus =>
  STATUSES.find(({ word }) => word === parameters.get("status"))?.status ?? AgentStatus.UNSPECIFIED;

/** Returns the order selected in the address. */
export const orderOf = (parameters: URLSearchParams): AgentOrder =>
  ORDERS.find(({ word }) => word === parameters.get("order"))?.order ?? AgentOrder.NEWEST;

/** Filters of the agents, kept in the address, so that a link leads to the same list. */
export function AgentFilters() {
  const [parameters, setParameters] = useSearchParams();
  const departments = useDepartments();
  const options = departments.map(({ departmentId, name }) => ({ word: departmentId, title: shownText(name, 60) }));
  const department = parameters.get("department") ?? "";
  const isUnknown = department !== "" && !options.some(({ word }) => word === department);
  return (
    <search className="filters">
      <AddressSearch name="q" label="Name begins with" />
      <AddressChoice name="status" label="Status" options={STATUSES} />
      <AddressChoice
        name="department"
        label="Department"
        options={[
          { word: "", title: "Any department" },
          ...options,
          ...(isUnknown ? [{ word: department, title: shownText(department, 60) }] : []),
        ]}
      />
      <AddressChoice name="order" label="Order" options={ORDERS} />
      {parameters.size === 0 ? null : (
        <Button action="clear-filters" tone="quiet" onClick={() => setParameters({}, { replace: true })}>
          Clear
        </Button>
      )}
    </search>
  );
}
