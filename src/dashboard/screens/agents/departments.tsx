import { useSearchParams } from "wouter";
import {
  type Department,
  DepartmentService,
  type ListDepartmentsResponse,
} from "../../../../gen/agentcontrol/v1/department_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { DepartmentCard } from "./department-card.tsx";

const REQUEST = { pageSize: 200 };
const ROW_HEIGHT = 62;

const departmentsOf = ({ departments }: ListDepartmentsResponse): readonly Department[] => departments;
const idOf = ({ departmentId }: Department): string => departmentId;

/** Departments, and the members of the one named in the address. */
export function Departments() {
  const [parameters, setParameters] = useSearchParams();
  const open = parameters.get("open");
  return (
    <PagedList
      pages={usePages(DepartmentService.method.listDepartments, REQUEST, departmentsOf)}
      loading="the departments"
      empty={<Empty title="No departments yet">Agents of one department share limits and mandates.</Empty>}
      idOf={idOf}
      rowHeight={ROW_HEIGHT}
      label="Departments"
      row={({ departmentId, name, description, memberCount }) => (
        <button
          type="button"
          className="pick-row department-row"
          data-action="open-department"
          aria-pressed={open === departmentId}
          onClick={() => setParameters({ tab: "departments", open: departmentId })}
        >
          <span className="department-name one-line">
            <Shown text={name} />
          </span>
          <span className="hint">{countText(memberCount, "member")}</span>
          <span className="hint one-line">
            <Shown text={description.slice(0, 200)} />
          </span>
        </button>
      )}
    >
      {(list) => (
        <div className="split">
          {list}
          {open === null ? (
            <p className="hint">Choose a department to see its members.</p>
          ) : (
            <DepartmentCard key={open} departmentId={open} onGone={() => setParameters({ tab: "departments" })} />
          )}
        </div>
      )}
    </PagedList>
  );
}
