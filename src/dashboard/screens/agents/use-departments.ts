import { useQuery } from "@connectrpc/connect-query";
import { useMemo } from "react";
import { type Department, DepartmentService } from "../../../../gen/agentcontrol/v1/department_service_pb.js";

const READ = 500;
const NONE: readonly Department[] = [];

/** Reads the newest 500 departments, for names and choices. */
export function useDepartments(): readonly Department[] {
  const { data } = useQuery(DepartmentService.method.listDepartments, { pageSize: READ });
  return data?.departments ?? NONE;
}

/** Returns the names of departments by their ids. An unknown department is named by its id. */
export function useDepartmentNames(): (departmentId: string) => string {
  const departments = useDepartments();
  return useMemo(() => {
    const names = new Map(departments.map(({ departmentId, name }) => [departmentId, name]));
    return (departmentId) => names.get(departmentId) ?? departmentId;
  }, [departments]);
}
