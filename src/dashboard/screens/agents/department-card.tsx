import { useQuery } from "@connectrpc/connect-query";
import { useMemo } from "react";
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
import { Confirm } from "../../kit/change-dialog.tsx";
import { countText } from "../../kit/count-text.ts";
import { DialogButton } from "../../kit/dialog.tsx";
import { Form } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useChange } from "../../kit/use-change.ts";
import { useMayChange } from "../../session.ts";
import { StatusBadge } from "./agent-marks.tsx";

const PAGE_SIZE = 200;
const ROW_HEIGHT = 48;

const { listDepartments, getDepartment, addDepartmentMember, removeDepartmentMember, deleteDepartment } =
  DepartmentService.method;

const agentsOf = ({ agents }: ListAgentsResponse): readonly Agent[] => agents;
const idOf = ({ agentId }: Agent): string => agentId;

/** Methods whose answers a change of members affects. */
const OF_MEMBERS = [listDepartments, getDepartment, AgentService.method.listAgents, AgentService.method.getAgent];

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
        <div className="row">
          {department.memberCount === 0 ? null : (
            <Link className="button" data-action="incident" href={`/incident?department=${departmentId}`}>
              Incident
            </Link>
          )}
          {mayChange ? <DeleteDepartment department={department} onGone={onGone} /> : null}
        </div>
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
  const add = useChange(
    (call, values: FormValues) => call(addDepartmentMember, { departmentId, agentId: values.text("agent_id") }),
    { refreshes: OF_MEMBERS },
  );
  return (
    <Form
      action="add-member"
      submit="Add to the department"
      isBusy={add.isPending}
      error={add.error}
      onSubmit={add.mutate}
    >
      <AgentPicker name="agent_id" label="Add an agent" />
    </Form>
  );
}

function Members({ departmentId }: { readonly departmentId: string }) {
  const request = useMemo(() => ({ departmentId, orderBy: AgentOrder.NAME, pageSize: PAGE_SIZE }), [departmentId]);
  return (
    <PagedList
      pages={usePages(AgentService.method.listAgents, request, agentsOf)}
      loading="the members"
      empty={<p className="hint">It has no members.</p>}
      idOf={idOf}
      rowHeight={ROW_HEIGHT}
      label="Members"
      row={({ agentId, name, status }) => (
        <div className="member-row">
          <Link href={`/agents/${agentId}`} className="one-line">
            <Shown text={name} />
          </Link>
          <StatusBadge status={status} />
          <RemoveMember departmentId={departmentId} agentId={agentId} name={name} />
        </div>
      )}
    />
  );
}

interface MemberProps {
  readonly departmentId: string;
  readonly agentId: string;
  readonly name: string;
}

function RemoveMember({ departmentId, agentId, name }: MemberProps) {
  const remove = useChange((call) => call(removeDepartmentMember, { departmentId, agentId }), {
    refreshes: OF_MEMBERS,
    announcesFault: true,
  });
  if (!useMayChange()) return null;
  return (
    <Button
      action="remove-member"
      isBusy={remove.isPending}
      aria-label={`Remove ${shownText(name)}`}
      onClick={() => remove.mutate()}
    >
      Remove
    </Button>
  );
}

function DeleteDepartment({ department, onGone }: { readonly department: Department; readonly onGone: () => void }) {
  const { departmentId, name, memberCount } = department;
  return (
    <DialogButton action="delete-department" tone="danger" label="Delete">
      {(close) => (
        <Confirm
          title="Delete the department?"
          submit="Delete the department"
          change={(call) => call(deleteDepartment, { departmentId })}
          refreshes={OF_MEMBERS}
          done={`Deleted the department ${shownText(name)}.`}
          onDone={onGone}
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
      )}
    </DialogButton>
  );
}
