import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ListDraft as DraftMessage } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { type ListSchema, ListService } from "../../gen/agentcontrol/v1/list_service_pb.js";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ActorNames } from "../registry/actor-names.ts";
import {
  getList,
  type ListDraft,
  type ListParts,
  type ListView,
  listLists,
  listValues,
  prepareAddition,
  prepareDeletion,
  preparePut,
  prepareRemoval,
} from "../registry/lists.ts";
import type { PreparedChange } from "../registry/prepared-change.ts";
import { makeChange } from "../registry/proposals.ts";
import type { Database } from "../store/database.ts";
import type { Caller } from "./context.ts";
import { listKindMapping } from "./enum-mapping.ts";
import { namePageFrom } from "./paging.ts";
import { proposalMessages } from "./proposal-message.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that ListService needs. */
export interface ListServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
}

function messageFrom({ list, usedBy, uses, ...times }: ListView): MessageInitShape<typeof ListSchema> {
  const { name, kind, values, digest } = list;
  return {
    name,
    digest,
    uses,
    kind: listKindMapping.toProto[kind],
    size: values.length,
    usedBy: usedBy.map((use) => ({ ...use })),
    createdAt: timestampFromMs(times.createdAtMs),
    updatedAt: timestampFromMs(times.updatedAtMs),
  };
}

/** Reads the content of a list. Its kind is checked by the rules of the proto. */
export function listDraftFrom({ name, kind, values }: Pick<DraftMessage, "name" | "kind" | "values">): ListDraft {
  return { name, kind: listKindMapping.fromProto(kind) ?? "text", values };
}

/** Creates the functions of ListService. */
export function createListService({ logs, database }: ListServiceOptions): ServiceDefinition {
  const partsFor = async ({ workspaceId }: Caller): Promise<ListParts> => ({
    log: await logs.of(workspaceId),
    database,
  });
  const stateFor = async ({ workspaceId }: Caller) => (await logs.of(workspaceId)).caughtUp();
  const names = new ActorNames(database.pool);
  /** Makes a change of a list and shows it, or the proposal that waits instead. */
  const change = async <T, R extends object>(prepared: PreparedChange<T>, caller: Caller, show: (made: T) => R) => {
    const { made, proposal } = await makeChange(await logs.of(caller.workspaceId), caller.keyId, prepared);
    if (proposal === undefined) return show(made);
    const [message] = await proposalMessages(names, caller.workspaceId, [proposal]);
    return { ...(message && { proposal: message }) };
  };
  return defineService(ListService, {
    async putList(request, { caller }) {
      const draft = { ...listDraftFrom(request), expectedDigest: request.expectedDigest };
      const prepared = await preparePut(await partsFor(caller), caller.keyId, draft);
      return change(prepared, caller, ({ view, added, removed }) => ({ list: messageFrom(view), added, removed }));
    },

    async getList(request, { caller }) {
      const { name, search } = request;
      const page = namePageFrom(request, "list values", name, search);
      const view = getList(await stateFor(caller), name);
      const { items, next } = await listValues(view.list, search, page);
      return { list: messageFrom(view), values: [...items], nextPageToken: page.tokenAfter(next) };
    },

    async listLists(request, { caller }) {
      const page = namePageFrom(request, "lists");
      const { items, next } = listLists(await stateFor(caller), page);
      return { lists: items.map(messageFrom), nextPageToken: page.tokenAfter(next) };
    },

    async deleteList({ name }, { caller }) {
      return change(prepareDeletion(name), caller, (view) => ({ list: messageFrom(view) }));
    },

    async addListValues({ name, values }, { caller }) {
      const prepared = await prepareAddition(await partsFor(caller), caller.keyId, name, values);
      return change(prepared, caller, ({ view, added }) => ({ list: messageFrom(view), added }));
    },

    async removeListValues({ name, values }, { caller }) {
      const prepared = await prepareRemoval(await partsFor(caller), caller.keyId, name, values);
      return change(prepared, caller, ({ view, removed }) => ({ list: messageFrom(view), removed }));
    },
  });
}
