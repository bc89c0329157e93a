import { useSearchParams } from "wouter";
import {
  type Department,
  DepartmentService,
  type ListDepartmentsResponse,
} from "../../../../gen/agentcontrol/v1/department_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import { usePages } from "../../kit/lists/use-pages.ts";
import { VirtualList } from "../../kit/lists/virtual-list.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { DepartmentCard } from "./department-card.tsx";

const REQUEST = { pageSize: 200 };
const ROW_HEIGHT = 62;

const departmentsOf = ({ departments }: ListDepartmentsResponse): readonly Department[] => departments;
const idOf = ({ departmentId }: Department): string => departmentId;

/** The departments, and the members of the one that the address names. */
export function Departments() {
  const [parameters, setParameters] = useSearchParams();
  const open = parameters.get("open");
  const method = DepartmentService.method.listDepartments;
  const { items, isPending, error, readMore, readAgain } = usePages(method, REQUEST, departmentsOf);
  if (isPending) return <Loading what="the departments" />;
  if (error !== null) return <Fault error={error} onRetry={readAgain} />;
  if (items.length === 0) {
    return <Empty title="No departments yet">Agents of one department share limits and mandates.</Empty>;
  }
  return (
    <div className="split">
      <VirtualList {...{ items, idOf, rowHeight: ROW_HEIGHT, label: "Departments", onEnd: readMore }}>
        {({ departmentId, name, description, memberCount }) => (
          <button
            type="button"
            className="department-row"
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
      </VirtualList>
      {open === null ? (
        <p className="hint">Choose a department to see its members.</p>
      ) : (
        <DepartmentCard key={open} departmentId={open} onGone={() => setParameters({ tab: "departments" })} />
      )}
    </div>
  );
}
