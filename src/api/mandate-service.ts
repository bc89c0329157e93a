import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { MandateDraft as DraftMessage } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import {
  type ApplyPackRequest,
  BudgetRelease,
  type CreateMandateRequest,
  type LimitSchema,
  type MandateDefinition,
  type MandateSchema,
  MandateService,
  OtherCurrency,
  type Rule,
  SequenceMode,
  type UpdateMandateRequest,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Slots } from "../async/slots.ts";
import { doInTurns } from "../async/work.ts";
import { alwaysFailing, type SampledRules } from "../dryrun/always-fails.ts";
import { type ListedLimit, listLimits } from "../dryrun/limits.ts";
import { toolsOf } from "../dryrun/mandate-tests.ts";
import { testWarnings } from "../dryrun/publish-warnings.ts";
import { overShare } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { CompiledBudget } from "../policy/budget.ts";
import { amountFrom } from "../policy/decimal.ts";
import { comparableName } from "../policy/names.ts";
import type { CompiledMandate, CompiledRule, CounterSpec } from "../policy/types.ts";
import { ActorNames, type NameOf } from "../registry/actor-names.ts";
import {
  type Authorship,
  compileDraft,
  listMandates,
  listMandateVersions,
  type MandateDraft,
  type MandateView,
  type PublishedMandate,
  prepareArchival,
  prepareCreation,
  prepareRestoration,
  prepareUpdate,
} from "../registry/mandates.ts";
import { type AppliedPack, dryRunPack, getPack, type PackDraft, preparePack } from "../registry/packs.ts";
import type { PreparedChange } from "../registry/prepared-change.ts";
import { makeChange, type ProposalView } from "../registry/proposals.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import type { Caller } from "./context.ts";
import {
  decisionMapping,
  limitOrderMapping,
  mandateModeMapping,
  mandateStatusMapping,
  scopeMapping,
} from "./enum-mapping.ts";
import { namePageFrom } from "./paging.ts";
import { proposalMessages } from "./proposal-message.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that MandateService needs. */
export interface MandateServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
}

/** Reads the fields of a mandate as its author writes it. */
export function draftFrom(
  request: CreateMandateRequest | UpdateMandateRequest | MandateDefinition | DraftMessage,
): MandateDraft {
  const { name, description, scope, departmentId, agentId, priority, mode, rules } = request;
  return {
    name,
    description,
    departmentId,
    agentId,
    priority,
    rules,
    scope: scopeMapping.fromProto(scope) ?? "workspace",
    mode: mandateModeMapping.fromProto(mode) ?? "enforce",
  };
}

function messageFrom(mandate: MandateView, nameOf: NameOf): MessageInitShape<typeof MandateSchema> {
  const { createdSeq: _, createdAtMs, updatedAtMs, scope, mode, status, rules, violations, ...rest } = mandate;
  return {
    ...rest,
    scope: scopeMapping.toProto[scope],
    mode: mandateModeMapping.toProto[mode],
    status: mandateStatusMapping.toProto[status],
    rules: [...rules],
    violations: [...violations],
    createdAt: timestampFromMs(createdAtMs),
    updatedAt: timestampFromMs(updatedAtMs),
    createdByName: nameOf(mandate.createdBy),
  };
}

function packDraftFrom(request: ApplyPackRequest, caller: Caller): PackDraft {
  const { name, mandates, expectedDigest, adopt } = request;
  return { name, mandates: mandates.map(draftFrom), expectedDigest, adopt, author: authorOf(request, caller) };
}

const authorOf = ({ note }: { readonly note: string }, { keyId }: Caller): Authorship => ({ by: keyId, note });

/** Maximum number of lists of limits that a process makes at once: decisions come between their parts. */
const MAX_LIMIT_LISTS = 4;
/** Lists that are made or wait. */
const MAX_LISTS_WANTED = 72;

/** Members that every limit has. */
type WindowOfRule = Pick<CounterSpec, "scope" | "departmentId" | "windowMs" | "countDecisions">;

function modeOf({ budget, ordered }: CompiledRule): SequenceMode {
  if (budget !== undefined) return SequenceMode.BUDGET;
  return ordered === undefined ? SequenceMode.VELOCITY : SequenceMode.ORDERED;
}

function windowOf({ velocity, ordered, budget }: CompiledRule): WindowOfRule {
  return velocity?.counter ?? ordered ?? allowedOf(budget as CompiledBudget);
}

const allowedOf = ({ pot, windowMs }: CompiledBudget): WindowOfRule => ({
  scope: pot.scope,
  ...(pot.departmentId !== undefined && { departmentId: pot.departmentId }),
  windowMs,
  countDecisions: ["allow"],
});

function budgetFieldsFrom(
  { ignoresOthers, confirmsRelease, currency, maxTotal }: CompiledBudget,
  { conditions }: Rule,
) {
  return {
    currency,
    maxTotal: amountFrom(BigInt(maxTotal)),
    otherCurrency: ignoresOthers ? OtherCurrency.IGNORE : OtherCurrency.VIOLATE,
    release: confirmsRelease ? BudgetRelease.CONFIRMED : BudgetRelease.REPORTED,
    sums: (conditions?.sums ?? []).map(({ tool, field }) => ({ tool: tool.trim(), field: field.trim() })),
  };
}

function limitFrom({
  mandate,
  rule,
  groups,
  moreGroups,
  fill,
  history,
}: ListedLimit): MessageInitShape<typeof LimitSchema> {
  const { velocity, budget, ordered, source } = rule;
  const { scope, departmentId, windowMs, countDecisions } = windowOf(rule);
  return {
    mandateId: mandate.id,
    mandateName: mandate.name,
    version: mandate.version,
    rule: rule.path,
    moreGroups,
    fill,
    history: history?.map(BigInt) ?? [],
    mode: mandateModeMapping.toProto[mandate.mode],
    decision: decisionMapping.toProto[rule.decision],
    sequenceMode: modeOf(rule),
    actionTypes: [...(velocity?.counter.patterns ?? [])],
    excludedActionTypes: [...rule.excludedTypes],
    steps: [...(ordered?.steps ?? [])],
    ...(rule.tool === undefined ? {} : { tool: source.tool?.trim() ?? rule.tool }),
    scope: scopeMapping.toProto[scope],
    ...(departmentId === undefined ? {} : { departmentId }),
    windowSeconds: BigInt(windowMs / 1000),
    ...(velocity === undefined ? {} : { maxCount: BigInt(velocity.maxCount) }),
    ...(budget === undefined ? {} : budgetFieldsFrom(budget, source)),
    countOutcomes: [...(source.conditions?.countOutcomes ?? [])],
    countDecisions: countDecisions.map((each) => decisionMapping.toProto[each]),
    groups: groups.map(({ count, remaining, members, resetsAtMs, ...group }) => ({
      ...group,
      ...(resetsAtMs === undefined ? {} : { resetsAt: timestampFromMs(resetsAtMs) }),
      count: BigInt(count),
      remaining: BigInt(remaining),
      members: BigInt(members),
    })),
  };
}

/** Creates the functions of MandateService. */
export function createMandateService({ logs, database }: MandateServiceOptions): ServiceDefinition {
  const slots = new Slots({
    name: "limit_lists",
    permits: MAX_LIMIT_LISTS,
    size: MAX_LISTS_WANTED,
    unit: "lists of limits",
    advice: "ask for fewer at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });

  /** Runs the last tests of the mandates that a pack updates against their new versions. */
  const failingTests = async (log: WorkspaceLog, { mandates }: PackDraft, newVersions: readonly CompiledMandate[]) => {
    const indices = new Map(mandates.map(({ name }, index) => [comparableName(name), index]));
    const prefixOf = ({ name }: CompiledMandate): string => `mandates[${indices.get(comparableName(name))}].`;
    return testWarnings(database, await log.caughtUp(), newVersions, prefixOf);
  };
  /** Warns about expressions that never have a result. */
  const failingWhens = (state: WorkspaceState, mandates: readonly SampledRules[]) =>
    doInTurns(alwaysFailing(mandates, toolsOf(state)));
  const inForce = (state: WorkspaceState, mandateId: string): readonly SampledRules[] => {
    const published = state.policies.mandates.get(mandateId)?.compiled;
    return published === undefined ? [] : [{ prefix: "", rules: published.rules }];
  };
  const names = new ActorNames(database.pool);
  const messagesFrom = async (mandates: readonly MandateView[], { workspaceId }: Caller) => {
    const nameOf = await names.find(
      workspaceId,
      mandates.map(({ createdBy }) => createdBy),
    );
    return mandates.map((mandate) => messageFrom(mandate, nameOf));
  };
  const shown = async (mandate: MandateView, caller: Caller) => (await messagesFrom([mandate], caller))[0];
  const waiting = async (proposal: ProposalView, { workspaceId }: Caller) => {
    const [message] = await proposalMessages(names, workspaceId, [proposal]);
    return { ...(message && { proposal: message }) };
  };
  /** Makes a change that publishes a version, and shows it with every warning about it, or the proposal that waits instead. */
  const publish = async (prepared: PreparedChange<PublishedMandate>, caller: Caller) => {
    const log = await logs.of(caller.workspaceId);
    const { made, proposal } = await makeChange(log, caller.keyId, prepared);
    if (proposal !== undefined) return waiting(proposal, caller);
    const { mandate, warnings } = made;
    const state = await log.caughtUp();
    const { mandateId } = mandate;
    const published = state.policies.mandates.get(mandateId)?.compiled;
    const failing = published === undefined ? [] : await testWarnings(database, state, [published]);
    const withoutResult = await failingWhens(state, inForce(state, mandateId));
    return { mandate: await shown(mandate, caller), warnings: [...warnings, ...withoutResult, ...failing] };
  };
  /** Shows a pack after a change, or as it would be after it. */
  const appliedFrom = async (log: WorkspaceLog, draft: PackDraft, applied: AppliedPack) => {
    const { pack, created, updated, newVersions, archived, unchanged, compiled, warnings } = applied;
    const failing = await failingTests(log, draft, newVersions);
    const sampled = compiled.map(({ path, rules }) => ({ prefix: `${path}.`, rules }));
    const withoutResult = await failingWhens(await log.caughtUp(), sampled);
    return {
      pack,
      created: [...created],
      updated: [...updated],
      archived: [...archived],
      unchanged: [...unchanged],
      warnings: [...warnings, ...withoutResult, ...failing],
    };
  };
  return defineService(MandateService, {
    async createMandate(request, { caller }) {
      return publish(prepareCreation(authorOf(request, caller), draftFrom(request)), caller);
    },

    async updateMandate(request, { caller }) {
      return publish(prepareUpdate(authorOf(request, caller), request.mandateId, draftFrom(request)), caller);
    },

    async restoreMandate(request, { caller }) {
      const { mandateId, version } = request;
      return publish(prepareRestoration(authorOf(request, caller), mandateId, version), caller);
    },

    async getMandate({ mandateId }, { caller }) {
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const versions = await messagesFrom(await listMandateVersions(database, state, mandateId), caller);
      const [mandate] = versions;
      return { ...(mandate === undefined ? {} : { mandate }), versions };
    },

    async listMandates(request, { caller }) {
      const { search } = request;
      const page = namePageFrom(request, "mandates", request.status, search);
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const filter = { status: mandateStatusMapping.fromProto(request.status), asWritten: request.asWritten, search };
      const { items, next } = await listMandates(database, state, filter, page);
      return { mandates: await messagesFrom(items, caller), nextPageToken: page.tokenAfter(next) };
    },

    async listLimits(request, { caller, signal }) {
      const agentId = request.agentId === "" ? undefined : request.agentId;
      const order = limitOrderMapping.fromProto(request.orderBy) ?? "rule";
      const page = namePageFrom(request, "limits", agentId, order);
      const { withHistory } = request;
      const query = { workspaceId: caller.workspaceId, agentId, order, withHistory, signal };
      const { items, next } = await slots.run(() => listLimits({ logs }, query, page), caller, signal);
      return { limits: items.map(limitFrom), nextPageToken: page.tokenAfter(next) };
    },

    async archiveMandate({ mandateId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      const { made, proposal } = await makeChange(log, caller.keyId, prepareArchival(mandateId));
      return proposal === undefined ? { mandate: await shown(made, caller) } : waiting(proposal, caller);
    },

    async applyPack(request, { caller }) {
      const log = await logs.of(caller.workspaceId);
      const draft = packDraftFrom(request, caller);
      if (request.dryRun) return appliedFrom(log, draft, await dryRunPack(log, draft));
      const { made, proposal } = await makeChange(log, caller.keyId, await preparePack(log, draft));
      return proposal === undefined ? appliedFrom(log, draft, made) : waiting(proposal, caller);
    },

    async getPack({ name }, { caller }) {
      const { pack, mandates } = getPack(await (await logs.of(caller.workspaceId)).caughtUp(), name);
      return { pack, mandates: [...mandates] };
    },

    async compileMandate({ rules }, { caller }) {
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const result = await compileDraft(state, rules);
      if (!result.valid) return { valid: false, violations: [...result.violations] };
      const failing = await failingWhens(state, [{ prefix: "", rules: result.compiled }]);
      return { valid: true, rules: [...result.rules], warnings: [...result.warnings, ...failing] };
    },
  });
}
