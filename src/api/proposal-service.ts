import type { MessageInitShape } from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { MandateDefinitionSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ProposalService, type ProposedListSchema } from "../../gen/agentcontrol/v1/proposal_service_pb.js";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ActorNames } from "../registry/actor-names.ts";
import { draftFromDefinition } from "../registry/mandates.ts";
import { pageFrom as boundedPage } from "../registry/page.ts";
import {
  acceptProposal,
  getProposal,
  listProposals,
  type ProposalView,
  readProposedMandates,
  rejectProposal,
} from "../registry/proposals.ts";
import type { WorkspaceRates } from "../registry/workspace-rates.ts";
import type { ProposedChange } from "../state/control-changes.ts";
import type { Database } from "../store/database.ts";
import type { JsonObject } from "../tree/canonical.ts";
import type { Caller } from "./context.ts";
import { listKindMapping, mandateModeMapping, scopeMapping } from "./enum-mapping.ts";
import { pageFrom } from "./paging.ts";
import { proposalMessages } from "./proposal-message.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that ProposalService needs. */
export interface ProposalServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
  /** Forgets the rates of calls of a workspace when its settings change. */
  readonly rates: Pick<WorkspaceRates, "forget">;
}

/** Maximum number of a list's values that a proposal shows. */
const SHOWN_VALUES = 1_000;

function definitionFrom(definition: JsonObject): MessageInitShape<typeof MandateDefinitionSchema> {
  const { scope, mode, rules, ...same } = draftFromDefinition(definition);
  return { ...same, scope: scopeMapping.toProto[scope], mode: mandateModeMapping.toProto[mode], rules: [...rules] };
}

function listFrom(change: ProposedChange): MessageInitShape<typeof ProposedListSchema> | undefined {
  if (change.kind === "delete_list") return { name: change.name };
  if (!("values" in change)) return undefined;
  const { name, values } = change;
  const kind = change.kind === "put_list" ? listKindMapping.toProto[change.list_kind] : undefined;
  return { name, kind, values: values.slice(0, SHOWN_VALUES), count: values.length };
}

function reviewsFrom(change: ProposedChange, { base }: ProposalView) {
  if (change.kind !== "update_workspace") return {};
  return { reviewsBefore: Number(base.mandate_reviews), reviewsAfter: Number(change.settings.mandate_reviews) };
}

/** Creates the functions of ProposalService. */
export function createProposalService({ logs, database, rates }: ProposalServiceOptions): ServiceDefinition {
  const names = new ActorNames(database.pool);
  const shown = async (proposal: ProposalView, { workspaceId }: Caller) =>
    (await proposalMessages(names, workspaceId, [proposal]))[0];
  const answerOf = ({ keyId, role }: Caller) => ({ by: keyId, isAdmin: role === Role.ADMIN });
  const readerOf = (caller: Caller) => ({ ...answerOf(caller), isAuditor: caller.role === Role.AUDITOR });
  return defineService(ProposalService, {
    async listProposals(request, { caller }) {
      const { open, mine } = request;
      const page = pageFrom(request, "proposals", mine ? "mine" : String(open));
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const filter = { isOpen: open, waitsFor: mine ? readerOf(caller) : undefined };
      const { items, next } = await listProposals(database, state, filter, page, logs.clock.now());
      const proposals = await proposalMessages(names, caller.workspaceId, items);
      return { proposals, nextPageToken: page.tokenAfter(next) };
    },

    async getProposal({ proposalId }, { caller }) {
      const { workspaceId } = caller;
      const state = await (await logs.of(workspaceId)).caughtUp();
      const read = await getProposal(database, state, readerOf(caller), proposalId, logs.clock.now());
      const { proposal, change, cannotAccept } = read;
      const changed = await readProposedMandates(database, workspaceId, proposal, change);
      const { items } = boundedPage(changed, changed.length, () => 0);
      return {
        proposal: await shown(proposal, caller),
        mandates: items.map(({ mandateId, before, after }) => ({
          mandateId,
          before: before && definitionFrom(before),
          after: after && definitionFrom(after),
        })),
        mandateCount: changed.length,
        list: listFrom(change),
        note: "note" in change ? change.note : "",
        cannotAccept,
        ...reviewsFrom(change, proposal),
      };
    },

    async acceptProposal({ proposalId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      const proposal = await acceptProposal({ log, database }, answerOf(caller), proposalId);
      if (proposal.kind === "update_workspace") rates.forget(caller.workspaceId);
      return { proposal: await shown(proposal, caller) };
    },

    async rejectProposal({ proposalId, note }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { proposal: await shown(await rejectProposal({ log }, answerOf(caller), proposalId, note), caller) };
    },
  });
}
