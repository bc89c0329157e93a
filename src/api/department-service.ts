import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type DepartmentSchema, DepartmentService } from "../../gen/agentcontrol/v1/department_service_pb.js";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import {
  addDepartmentMember,
  createDepartment,
  deleteDepartment,
  getDepartment,
  listDepartments,
  listMembers,
  removeDepartmentMember,
} from "../registry/departments.ts";
import type { DepartmentState } from "../state/agents.ts";
import { pageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that DepartmentService needs. */
export interface DepartmentServiceOptions {
  readonly logs: WorkspaceLogs;
}

/** Maximum number of members in a GetDepartment response. */
const SHOWN_MEMBERS = 10_000;

function messageFrom({ department, members, createdAtMs }: DepartmentState): MessageInitShape<typeof DepartmentSchema> {
  const { department_id: departmentId, name, description } = department;
  return { departmentId, name, description, memberCount: members.size, createdAt: timestampFromMs(createdAtMs) };
}

/** Creates the functions of DepartmentService. */
export function createDepartmentService({ logs }: DepartmentServiceOptions): ServiceDefinition {
  return defineService(DepartmentService, {
    async createDepartment({ name, description }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { department: messageFrom(await createDepartment(log, caller.keyId, { name, description })) };
    },

    async listDepartments(request, { caller }) {
      const page = pageFrom(request, "departments");
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const { items, next } = listDepartments(state, page);
      return { departments: items.map(messageFrom), nextPageToken: page.tokenAfter(next) };
    },

    async getDepartment({ departmentId }, { caller }) {
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const department = getDepartment(state, departmentId);
      return { department: messageFrom(department), agentIds: listMembers(department, SHOWN_MEMBERS) };
    },

    async deleteDepartment({ departmentId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { department: messageFrom(await deleteDepartment(log, caller.keyId, departmentId)) };
    },

    async addDepartmentMember({ departmentId, agentId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { department: messageFrom(await addDepartmentMember(log, caller.keyId, departmentId, agentId)) };
    },

    async removeDepartmentMember({ departmentId, agentId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { department: messageFrom(await removeDepartmentMember(log, caller.keyId, departmentId, agentId)) };
    },
  });
}
