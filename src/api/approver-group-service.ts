import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Pool } from "pg";
import { type ApproverGroupSchema, ApproverGroupService } from "../../gen/agentcontrol/v1/approver_group_service_pb.js";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ActorNames, type NameOf } from "../registry/actor-names.ts";
import {
  type ApproverGroupView,
  deleteApproverGroup,
  getApproverGroup,
  listApproverGroups,
  putApproverGroup,
} from "../registry/approver-groups.ts";
import type { Caller } from "./context.ts";
import { namePageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that ApproverGroupService needs. */
export interface ApproverGroupServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly pool: Pool;
}

const peopleOf = ({ sealed }: ApproverGroupView): readonly string[] => [...sealed.members, ...sealed.deputies];

function messageFrom(view: ApproverGroupView, nameOf: NameOf): MessageInitShape<typeof ApproverGroupSchema> {
  const { sealed, usedBy, uses, createdAtMs, updatedAtMs } = view;
  const names = peopleOf(view).flatMap((person) => {
    const name = nameOf(person);
    return name === undefined ? [] : [{ person, name }];
  });
  return {
    name: sealed.name,
    description: sealed.description,
    members: [...sealed.members],
    oidcGroups: sealed.oidc_groups.map((group) => ({ ...group })),
    deputies: [...sealed.deputies],
    usedBy: usedBy.map((use) => ({ ...use })),
    uses,
    createdAt: timestampFromMs(createdAtMs),
    updatedAt: timestampFromMs(updatedAtMs),
    names,
  };
}

/** Creates the functions of ApproverGroupService. */
export function createApproverGroupService({ logs, pool }: ApproverGroupServiceOptions): ServiceDefinition {
  const names = new ActorNames(pool);
  const stateFor = async ({ workspaceId }: Caller) => (await logs.of(workspaceId)).caughtUp();
  const shown = async (views: readonly ApproverGroupView[], { workspaceId }: Caller) => {
    const nameOf = await names.find(workspaceId, views.flatMap(peopleOf));
    return views.map((view) => messageFrom(view, nameOf));
  };
  const shownOne = async (view: ApproverGroupView, caller: Caller) => (await shown([view], caller))[0];
  return defineService(ApproverGroupService, {
    async putApproverGroup(draft, { caller }) {
      const view = await putApproverGroup(await logs.of(caller.workspaceId), caller.keyId, draft);
      return { approverGroup: await shownOne(view, caller) };
    },

    async getApproverGroup({ name }, { caller }) {
      return { approverGroup: await shownOne(getApproverGroup(await stateFor(caller), name), caller) };
    },

    async listApproverGroups(request, { caller }) {
      const page = namePageFrom(request, "approver groups");
      const { items, next } = listApproverGroups(await stateFor(caller), page);
      return { approverGroups: await shown(items, caller), nextPageToken: page.tokenAfter(next) };
    },

    async deleteApproverGroup({ name }, { caller }) {
      const view = await deleteApproverGroup(await logs.of(caller.workspaceId), caller.keyId, name);
      return { approverGroup: await shownOne(view, caller) };
    },
  });
}
