import { useMutation, useQuery } from "@connectrpc/connect-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import {
  type Agent,
  AgentOrder,
  AgentService,
  type ListAgentsResponse,
} from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { type Department, DepartmentService } from "../../../../gen/agentcontrol/v1/department_service_pb.js";
import { AgentPicker } from "../../kit/agent-picker.tsx";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/confirm.tsx";
import { countText } from "../../kit/count-text.ts";
import { Form } from "../../kit/form.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, faultText, Loading } from "../../kit/states.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { useMayChange } from "../../session.ts";
import { StatusBadge } from "./agent-marks.tsx";

const PAGE_SIZE = 200;
const ROW_HEIGHT = 48;

const { listDepartments, getDepartment, addDepartmentMember, removeDepartmentMember, deleteDepartment } =
  DepartmentService.method;

const agentsOf = ({ agents }: ListAgentsResponse): readonly Agent[] => agents;
const idOf = ({ agentId }: Agent): string => agentId;

/** Returns the function that reads again what the membership of a department changes. */
function useRefreshMembers(): () => void {
  const refresh = useRefresh();
  return () => refresh(listDepartments, getDepartment, AgentService.method.listAgents, AgentService.method.getAgent);
}

interface DepartmentProps {
  readonly departmentId: string;
  readonly onGone: () => void;
}

/** One department with its members. */
export function DepartmentCard({ departmentId, onGone }: DepartmentProps) {
  const query = useQuery(getDepartment, { departmentId });
  const mayChange = useMayChange();
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  const department = query.data?.department;
  if (department === undefined) return <Loading what="the department" />;
  return (
    <section className="card stack" data-department={departmentId} aria-labelledby="department-title">
      <div className="screen-head">
        <h2 id="department-title">
          <Shown text={department.name} />
        </h2>
        {mayChange ? <DeleteDepartment department={department} onGone={onGone} /> : null}
      </div>
      <p className="hint">
        <code>{departmentId}</code>
      </p>
      {department.description === "" ? null : (
        <p>
          <Shown text={department.description} />
        </p>
      )}
      {mayChange ? <AddMember departmentId={departmentId} /> : null}
      <Members departmentId={departmentId} />
    </section>
  );
}

function AddMember({ departmentId }: { readonly departmentId: string }) {
  const refresh = useRefreshMembers();
  const { mutate, isPending, error } = useMutation(addDepartmentMember, { onSuccess: refresh });
  return (
    <Form
      action="add-member"
      submit="Add to the department"
      isBusy={isPending}
      error={error}
      onSubmit={(values) => mutate({ departmentId, agentId: values.text("agent_id") })}
    >
      <AgentPicker name="agent_id" label="Add an agent" />
    </Form>
  );
}

function Members({ departmentId }: { readonly departmentId: string }) {
  const request = useMemo(() => ({ departmentId, orderBy: AgentOrder.NAME, pageSize: PAGE_SIZE }), [departmentId]);
  const { items, isPending, error, readMore, readAgain } = usePages(AgentService.method.listAgents, request, agentsOf);
  if (isPending) return <Loading what="the members" />;
  if (error !== null) return <Fault error={error} onRetry={readAgain} />;
  if (items.length === 0) return <p className="hint">It has no members.</p>;
  return (
    <VirtualList {...{ items, idOf, rowHeight: ROW_HEIGHT, label: "Members", onEnd: readMore }}>
      {({ agentId, name, status }) => (
        <div className="member-row">
          <Link href={`/agents/${agentId}`} className="one-line">
            <Shown text={name} />
          </Link>
          <StatusBadge status={status} />
          <RemoveMember departmentId={departmentId} agentId={agentId} name={name} />
        </div>
      )}
    </VirtualList>
  );
}

interface MemberProps {
  readonly departmentId: string;
  readonly agentId: string;
  readonly name: string;
}

function RemoveMember({ departmentId, agentId, name }: MemberProps) {
  const refresh = useRefreshMembers();
  const announce = useAnnounce();
  const { mutate, isPending } = useMutation(removeDepartmentMember, {
    onSuccess: refresh,
    onError: (error) => announce({ tone: "bad", text: faultText(error) }),
  });
  if (!useMayChange()) return null;
  return (
    <Button
      action="remove-member"
      isBusy={isPending}
      aria-label={`Remove ${shownText(name)}`}
      onClick={() => mutate({ departmentId, agentId })}
    >
      Remove
    </Button>
  );
}

function DeleteDepartment({ department, onGone }: { readonly department: Department; readonly onGone: () => void }) {
  const [isOpen, setIsOpen] = useState(false);
  const { departmentId, name, memberCount } = department;
  const refresh = useRefreshMembers();
  const announce = useAnnounce();
  const { mutate, isPending, error, reset } = useMutation(deleteDepartment, {
    onSuccess() {
      onGone();
      announce({ tone: "good", text: `Deleted the department ${shownText(name)}.` });
      refresh();
    },
  });
  const close = (): void => {
    setIsOpen(false);
    reset();
  };
  return (
    <>
      <Button action="delete-department" tone="danger" onClick={() => setIsOpen(true)}>
        Delete
      </Button>
      {isOpen ? (
        <Confirm
          title="Delete the department?"
          action="confirm"
          submit="Delete the department"
          isBusy={isPending}
          error={error}
          onConfirm={() => mutate({ departmentId })}
          onClose={close}
        >
          <p>
            <strong>
              <Shown text={name} />
            </strong>
          </p>
          <p>
            It has {countText(memberCount, "member")}. Agents stay registered and no longer share its limits and
            mandates.
          </p>
        </Confirm>
      ) : null}
    </>
  );
}
