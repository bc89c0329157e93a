import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  EscalationChange as ChangeKind,
  type EscalationSchema,
  EscalationService,
  EscalationStatus,
  type GetEscalationContextResponseSchema,
  ApprovalObstacle as Obstacle,
  Resolution,
} from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Slots } from "../async/slots.ts";
import { overShare } from "../errors.ts";
import { type ApprovalContext, type EarlierAnswers, readApprovalContext } from "../escalation/approval-context.ts";
import { givenFor } from "../escalation/approvals.ts";
import { type ApprovalObstacle, findAwaitedPage, obstaclesTo } from "../escalation/awaited.ts";
import { type EditParts, editEscalation } from "../escalation/edit.ts";
import {
  type Escalation,
  extendEscalation,
  findEscalationPage,
  getEscalation,
  resolveEscalation,
  withdrawApproval,
  withdrawEscalation,
  withStandingApprovals,
} from "../escalation/escalation.ts";
import { EscalationFeed } from "../escalation/feed.ts";
import { type EscalationChange, type WatchContext, waitEscalation, watchEscalations } from "../escalation/watch.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { argumentsFrom } from "../policy/names.ts";
import { ActorNames, type NameOf } from "../registry/actor-names.ts";
import { pageFrom as cutPage, MAX_PAGE_BYTES } from "../registry/page.ts";
import { ESCALATION_STATUS_NUMBERS } from "../state/types.ts";
import type { CallContext, Caller } from "./context.ts";
import { optionalTimestamp } from "./field-values.ts";
import { pageFrom } from "./paging.ts";
import { decisionRecordFrom, reasonMessageFromSealed } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that EscalationService needs. */
export interface EscalationServiceParts extends EditParts {
  readonly logs: WorkspaceLogs;
  /** Milliseconds between heartbeats on a quiet stream. */
  readonly heartbeatMs: number;
}

const CHANGE_KINDS: Readonly<Record<EscalationChange["kind"], ChangeKind>> = {
  created: ChangeKind.CREATED,
  updated: ChangeKind.UPDATED,
  resolved: ChangeKind.RESOLVED,
};

const statusOf = ({ status }: Escalation): EscalationStatus => ESCALATION_STATUS_NUMBERS[status];

/** Approvals of an escalation as a caller sees them. */
interface Shown {
  readonly nameOf: NameOf;
  /** Why an approval by the caller would count for nothing that is missing, by escalation; undefined for a caller who cannot approve. */
  readonly obstacles: ReadonlyMap<string, ApprovalObstacle> | undefined;
  /** False for an agent, which has no use for who approved. */
  readonly showsApprovals: boolean;
}

function needsFrom({ needs, approvals, status, resolvedBy, receipt }: Escalation) {
  if (needs.length > 0) {
    return needs.map((need) => ({
      mandateId: need.mandate_id,
      rule: need.rule,
      groups: [...need.groups],
      atLeast: need.at_least,
      given: givenFor(need, approvals),
      remindAt: need.remind_at === undefined ? undefined : timestampFromMs(Date.parse(need.remind_at)),
      reminded: need.reminded === true,
    }));
  }
  const first = receipt.body.reasons.find(({ rule, decision }) => rule !== undefined && decision === undefined);
  const given = status === "approved" && resolvedBy !== null ? 1 : 0;
  return [{ mandateId: first?.mandate_id, rule: ruleOf(first?.rule), groups: [], atLeast: 1, given }];
}

/** Returns the rule of a place in a mandate: `rules[0]` of `rules[0].conditions.rules[1]`. */
const ruleOf = (place: string | undefined): string | undefined => place?.split(".")[0];

function messageFrom(
  escalation: Escalation,
  { nameOf, obstacles, showsApprovals }: Shown,
): MessageInitShape<typeof EscalationSchema> {
  const { body } = escalation.receipt;
  const { action } = body;
  return {
    escalationId: escalation.escalationId,
    status: statusOf(escalation),
    agentId: escalation.agentId,
    agentName: action.agent_name,
    trustScore: body.trust.capped ?? body.trust.before,
    actionType: action.action_type,
    actionContent: action.action_content,
    tool: action.tool,
    arguments: argumentsFrom(action.metadata),
    decisionId: body.decision_id,
    policyName: body.policy_name,
    reasons: body.reasons.map(reasonMessageFromSealed),
    createdAt: timestampFromMs(Date.parse(body.at)),
    resolvedAt: optionalTimestamp(escalation.resolvedAtMs),
    resolvedBy: escalation.resolvedBy ?? undefined,
    resolvedByName: nameOf(escalation.resolvedBy),
    note: escalation.note ?? undefined,
    usedByDecisionId: escalation.usedBy ?? undefined,
    usedAt: optionalTimestamp(escalation.usedAtMs),
    expiresAt: timestampFromMs(escalation.expiresAtMs),
    asked: escalation.asked,
    replacedBy: escalation.replacedBy ?? undefined,
    editedArguments: argumentsFromText(escalation.editedArguments),
    editedFrom: escalation.editedFrom ?? undefined,
    sessionId: body.session_id,
    toolVersion: action.tool_version,
    metadata: action.metadata,
    ignoredMetadata: [...(body.digest_ignores ?? [])],
    onBehalfOf: body.on_behalf_of,
    grantId: body.grant_id,
    intentContractId: body.intent_contract_id,
    actionDigest: body.action_digest ?? "",
    approvalsNeeded: needsFrom(escalation),
    approvals: !showsApprovals
      ? []
      : escalation.approvals.map(({ by, at_ms, note, groups, deputy_of }) => ({
          by,
          byName: nameOf(by),
          at: timestampFromMs(at_ms),
          note: note ?? undefined,
          groups: [...new Set([...groups, ...deputy_of])].sort(),
        })),
    ...(escalation.status === "pending" && obstacles !== undefined
      ? callerFields(obstacles.get(escalation.escalationId))
      : {}),
  };
}

const OBSTACLES: Readonly<Record<ApprovalObstacle, Obstacle>> = {
  four_eyes: Obstacle.FOUR_EYES,
  asked: Obstacle.ASKED,
  given: Obstacle.GIVEN,
  maker: Obstacle.MAKER,
  no_owner: Obstacle.NO_OWNER,
  not_a_member: Obstacle.NOT_A_MEMBER,
  met: Obstacle.MET,
};

const callerFields = (obstacle: ApprovalObstacle | undefined) =>
  obstacle === undefined ? { awaitsCaller: true } : { awaitsCaller: false, approvalObstacle: OBSTACLES[obstacle] };

const argumentsFromText = (text: string | null): JsonObject | undefined =>
  text === null ? undefined : (JSON.parse(text) as JsonObject);

function contextMessageFrom(
  { usual, usualFrom, earlier, earlierFrom, before }: ApprovalContext,
  nameOf: NameOf,
): MessageInitShape<typeof GetEscalationContextResponseSchema> {
  return {
    usual: usual.map(({ spread, currency, ...rest }) => ({
      ...rest,
      ...(currency === undefined ? {} : { currency }),
      ...spread,
    })),
    usualFrom,
    earlier: earlier.map(({ last, ...rest }) => ({ ...rest, last: lastAnswerFrom(last, nameOf) })),
    earlierFrom,
    before: before.map(({ receipt, arguments: args, isCut }) => ({
      decision: decisionRecordFrom(receipt),
      arguments: args,
      argumentsCut: isCut,
    })),
  };
}

function lastAnswerFrom(last: EarlierAnswers["last"], nameOf: NameOf) {
  if (last === undefined) return undefined;
  const { escalationId, status, isEdited, resolvedBy, resolvedAtMs, note } = last;
  return {
    escalationId,
    status: ESCALATION_STATUS_NUMBERS[status],
    edited: isEdited,
    resolvedBy,
    resolvedByName: nameOf(resolvedBy),
    resolvedAt: timestampFromMs(resolvedAtMs),
    note: note ?? undefined,
  };
}

/** Maximum number of contexts that a process reads at once: each holds a connection of the pool. */
const MAX_CONTEXTS = 4;
/** Contexts that are read or wait. */
const MAX_CONTEXTS_WANTED = 72;

/** Returns the only agent whose escalations the key may see, or null when it may see all. */
const visibleAgent = ({ role, agentId }: Caller): string | null => (role === Role.AGENT ? agentId : null);

/** Tests whether a caller's role may approve. */
const mayAnswer = ({ role }: Caller): boolean => role === Role.ADMIN || role === Role.OPERATOR;

/** Maximum number of times that an escalation shows its metadata: as that of the action, and in what an approval covers. */
const SHOWN_TIMES = 2;

/** Creates the functions of EscalationService. All streams of a workspace in this process share one feed. */
export function createEscalationService(parts: EscalationServiceParts): ServiceDefinition {
  const { logs, pool, heartbeatMs } = parts;
  const feeds = new WeakMap<WorkspaceLog, EscalationFeed>();
  const names = new ActorNames(pool);
  const contexts = new Slots({
    name: "contexts",
    permits: MAX_CONTEXTS,
    size: MAX_CONTEXTS_WANTED,
    unit: "contexts of escalations",
    advice: "ask for fewer at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });

  /** Finds the names of people who answered escalations. An agent has no use for them. */
  const namesIn = async (found: readonly Escalation[], { workspaceId, role }: Caller): Promise<NameOf> => {
    const people = found.flatMap(({ resolvedBy, approvals }) => [resolvedBy, ...approvals.map(({ by }) => by)]);
    return names.find(workspaceId, role === Role.AGENT ? [] : people);
  };

  /** Writes escalations as a caller may see them. */
  const shownAll = async (found: readonly Escalation[], caller: Caller) => {
    const context = await contextOf(caller);
    const escalations = await withStandingApprovals(pool, caller.workspaceId, found);
    const nameOf = await namesIn(escalations, caller);
    const showsApprovals = caller.role !== Role.AGENT;
    const obstacles = mayAnswer(caller) ? await obstaclesTo(context, caller.keyId, escalations) : undefined;
    return escalations.map((escalation) => messageFrom(escalation, { nameOf, obstacles, showsApprovals }));
  };

  const shown = async (escalation: Escalation, caller: Caller) => (await shownAll([escalation], caller))[0];

  const feedOf = (log: WorkspaceLog): EscalationFeed => {
    const known = feeds.get(log);
    if (known !== undefined) return known;
    const feed = new EscalationFeed(log, pool);
    feeds.set(log, feed);
    return feed;
  };

  const watchContext = async ({ caller, signal }: CallContext): Promise<WatchContext> => {
    const log = await logs.of(caller.workspaceId);
    return { log, feed: feedOf(log), pool, heartbeatMs, signal };
  };

  const contextOf = async ({ workspaceId }: Caller) => ({ log: await logs.of(workspaceId), pool });

  const get = async (escalationId: string, { caller }: CallContext): Promise<Escalation> =>
    getEscalation(await contextOf(caller), escalationId, visibleAgent(caller));

  return defineService(EscalationService, {
    async getEscalationStatus({ escalationId }, context) {
      return { ok: true, status: statusOf(await get(escalationId, context)) };
    },
    async *waitEscalation({ escalationId }, context) {
      const watch = await watchContext(context);
      for await (const escalation of waitEscalation(watch, escalationId, visibleAgent(context.caller))) {
        yield escalation === undefined ? { heartbeat: true } : { escalation: await shown(escalation, context.caller) };
      }
    },
    async *watchEscalations({ cursor: first }, context) {
      let cursor = first;
      for await (const changes of watchEscalations(await watchContext(context), first)) {
        if (changes === undefined) {
          yield { change: ChangeKind.HEARTBEAT, cursor, at: timestampFromMs(logs.clock.now()) };
          continue;
        }
        const found = changes.map(({ escalation }) => escalation);
        const escalations = await shownAll(found, context.caller);
        for (const [index, { seq, kind, atMs }] of changes.entries()) {
          cursor = String(seq);
          yield { change: CHANGE_KINDS[kind], escalation: escalations[index], cursor, at: timestampFromMs(atMs) };
        }
      }
    },
    async listEscalations(request, { caller }) {
      const { agentId, mine, resolvedBy } = request;
      const status = mine ? EscalationStatus.PENDING : request.status;
      const page = pageFrom(request, "escalations", request.status, agentId, resolvedBy, ...(mine ? ["mine"] : []));
      const context = await contextOf(caller);
      if (mine && !mayAnswer(caller)) return { escalations: [] };
      const find = mine ? findAwaitedPage(caller.keyId) : findEscalationPage;
      const read = await find(context, {
        status: status === EscalationStatus.UNSPECIFIED ? null : status,
        agentId: agentId === "" ? null : agentId,
        resolvedBy: resolvedBy === "" ? null : resolvedBy,
        before: page.after ?? null,
        size: page.size,
        bytes: MAX_PAGE_BYTES / SHOWN_TIMES,
      });
      const { items, next } = cutPage(
        read,
        page.size,
        ({ escalation }) => escalation.createdSeq,
        ({ bytes }) => SHOWN_TIMES * bytes,
      );
      return {
        escalations: await shownAll(
          items.map(({ escalation }) => escalation),
          caller,
        ),
        nextPageToken: page.tokenAfter(next),
      };
    },
    async getEscalation({ escalationId }, context) {
      return { escalation: await shown(await get(escalationId, context), context.caller) };
    },
    async getEscalationContext({ escalationId }, { caller, signal }) {
      const parts = await contextOf(caller);
      const context = await contexts.run(() => readApprovalContext(parts, escalationId), caller, signal);
      const resolvers = context.earlier.map(({ last }) => last?.resolvedBy);
      return contextMessageFrom(context, await names.find(caller.workspaceId, resolvers));
    },
    async resolveEscalation({ escalationId, resolution, note = null }, { caller }) {
      const word = resolution === Resolution.APPROVED ? "approved" : "rejected";
      const command = { escalationId, resolution: word, note, by: caller.keyId } as const;
      return { escalation: await shown(await resolveEscalation(await contextOf(caller), command), caller) };
    },
    async withdrawApproval({ escalationId }, { caller }) {
      const command = { escalationId, by: caller.keyId };
      return { escalation: await shown(await withdrawApproval(await contextOf(caller), command), caller) };
    },
    async withdrawEscalation({ escalationId }, { caller }) {
      const command = { escalationId, by: caller.keyId, agentId: visibleAgent(caller) };
      return { escalation: await shown(await withdrawEscalation(await contextOf(caller), command), caller) };
    },
    async editEscalation({ escalationId, arguments: edited = {}, note = null }, { caller, signal }) {
      const { workspaceId, keyId: by } = caller;
      const command = { workspaceId, escalationId, arguments: edited, note, by, waiter: { signal } };
      const { escalation, replacement } = await editEscalation(parts, command);
      return {
        escalation: await shown(escalation, caller),
        ...(replacement === undefined ? {} : { replacement: await shown(replacement, caller) }),
      };
    },
    async extendEscalation({ escalationId, seconds }, { caller }) {
      const command = { escalationId, seconds, by: caller.keyId };
      return { escalation: await shown(await extendEscalation(await contextOf(caller), command), caller) };
    },
  });
}
