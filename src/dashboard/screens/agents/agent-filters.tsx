import { useEffect, useState } from "react";
import { useSearchParams } from "wouter";
import { AgentOrder, AgentStatus } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Field } from "../../kit/field.tsx";
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
const TYPING_MS = 200;
const MAX_NAME = 200;

/** Returns the status selected in the address. */
export const statusOf = (parameters: URLSearchParams): AgentStatus =>
  STATUSES.find(({ word }) => word === parameters.get("status"))?.status ?? AgentStatus.UNSPECIFIED;

/** Returns the order selected in the address. */
export const orderOf = (parameters: URLSearchParams): AgentOrder =>
  ORDERS.find(({ word }) => word === parameters.get("order"))?.order ?? AgentOrder.NEWEST;

/** Returns the function that changes one filter in the address. */
function useFilter(): (name: string, value: string) => void {
  const [, setParameters] = useSearchParams();
  return (name, value) =>
    setParameters(
      (before) => {
        const after = new URLSearchParams(before);
        if (value === "") after.delete(name);
        else after.set(name, value);
        return after;
      },
      { replace: true },
    );
}

/** Filters of the agents, kept in the address, so that a link leads to the same list. */
export function AgentFilters() {
  const [parameters, setParameters] = useSearchParams();
  const departments = useDepartments();
  const options = departments.map(({ departmentId, name }) => ({ word: departmentId, title: shownText(name, 60) }));
  const department = parameters.get("department") ?? "";
  const isUnknown = department !== "" && !options.some(({ word }) => word === department);
  return (
    <search className="filters">
      <NameFilter />
      <Choice name="status" label="Status" options={STATUSES} />
      <Choice
        name="department"
        label="Department"
        options={[
          { word: "", title: "Any department" },
          ...options,
          ...(isUnknown ? [{ word: department, title: shownText(department, 60) }] : []),
        ]}
      />
      <Choice name="order" label="Order" options={ORDERS} />
      {parameters.size === 0 ? null : (
        <Button action="clear-filters" tone="quiet" onClick={() => setParameters({}, { replace: true })}>
          Clear
        </Button>
      )}
    </search>
  );
}

/** A filter with a few choices. */
function Choice({
  name,
  label,
  options,
}: {
  readonly name: string;
  readonly label: string;
  readonly options: readonly { readonly word: string; readonly title: string }[];
}) {
  const [parameters] = useSearchParams();
  const setFilter = useFilter();
  return (
    <Field label={label}>
      {(control) => (
        <select
          {...control}
          name={name}
          value={parameters.get(name) ?? ""}
          onChange={({ target }) => setFilter(name, target.value)}
        >
          {options.map(({ word, title }) => (
            <option key={word} value={word}>
              {title}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** Filter by the beginning of the name. It enters the address when the typing pauses. */
function NameFilter() {
  const [parameters] = useSearchParams();
  const inAddress = parameters.get("q") ?? "";
  const [typed, setTyped] = useState(inAddress);
  const setFilter = useFilter();
  useEffect(() => setTyped(inAddress), [inAddress]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: waits for the typing alone
  useEffect(() => {
    if (typed === inAddress) return undefined;
    const timer = setTimeout(() => setFilter("q", typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <Field label="Name begins with">
      {(control) => (
        <input
          {...control}
          type="search"
          name="q"
          value={typed}
          maxLength={MAX_NAME}
          onChange={({ target }) => setTyped(target.value)}
          autoComplete="off"
        />
      )}
    </Field>
  );
}
