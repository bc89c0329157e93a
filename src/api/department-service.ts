import type { MessageInitShape } from "@bufbuild/protobuf";
import { type DepartmentSchema, DepartmentService } from "../../gen/agentcontrol/v1/department_service_pb.js";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import {
  addDepartmentMember,
  createDepartment,
  deleteDepartment,
  listDepartments,
  listMembers,
  removeDepartmentMember,
} from "../registry/departments.ts";
import { departmentOf } from "../registry/lookups.ts";
import type { DepartmentState } from "../state/departments.ts";
import { decodePageToken, nextPageToken, pageKind, pageSizeFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";
import { timestampFromMs } from "./words.ts";

/** What the department service works with. */
export interface DepartmentServiceOptions {
  readonly logs: WorkspaceLogs;
}

/** Members that GetDepartment shows. */
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
      const kind = pageKind("departments");
      const page = { size: pageSizeFrom(request), after: decodePageToken(kind, request.pageToken) };
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const { items, next } = listDepartments(state, page);
      return { departments: items.map(messageFrom), nextPageToken: nextPageToken(kind, next) };
    },

    async getDepartment({ departmentId }, { caller }) {
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const department = departmentOf(state, departmentId);
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
