import { randomUUID } from "node:crypto";
import { create, type JsonObject } from "@bufbuild/protobuf";
import type { Pool } from "pg";
import { type InterceptRequest, InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { actionFrom } from "../api/action.ts";
import type { Intercept, InterceptCommand } from "../decision/intercept.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type Escalation, getEscalation, withdrawEscalation } from "../escalation/escalation.ts";
import { EscalationFeed } from "../escalation/feed.ts";
import { waitEscalation } from "../escalation/watch.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { argumentsFrom } from "../policy/names.ts";
import type { LargeRequests } from "../server/large-requests.ts";
import type { Action, SealedDecision } from "../state/types.ts";
import type { TracePlace } from "../tracing/trace-context.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { alwaysBlockedFor } from "./always-blocked.ts";
import type { McpCaller } from "./caller.ts";
import { approvedDigest, type CallDigest, type Earlier, findEarlier } from "./earlier-calls.ts";
import type { ApprovedCall } from "./kept-results.ts";

/** Request for a decision on a tool call, whose content is the text of its arguments. */
export interface ToolRequest {
  readonly actionType: string;
  readonly tool: string;
  readonly metadata: JsonObject & { readonly arguments: JsonObject };
  readonly sessionId?: string;
}

/** An action whose caller waits for the outcome. */
export interface HeldAction {
  /** Way by which the action came. */
  readonly wire: "gateway" | "hook";
  readonly caller: McpCaller;
  readonly arguments: JsonObject;
  /** Creates the request for a decision on these arguments. */
  readonly requestFor: (args: JsonObject) => ToolRequest;
  /** Facts of the action besides its request: a refusal, and whether its decision changes trust and its outcome is reported. */
  readonly marks?: Pick<Action, "refusal" | "keepsTrust" | "reportsOutcome">;
  /** Weight of the message with the action. */
  readonly bytes: number;
  /** Place in the trace of the call; undefined for a call without one. */
  readonly trace: TracePlace | undefined;
  /** Aborts when nobody waits for the outcome any more. */
  readonly signal: AbortSignal;
  /** Milliseconds to wait for a person; 0 means not at all. */
  readonly holdMs: number;
  /** Called every 10 seconds during the wait. Default: nothing is called. */
  readonly onWaiting?: ((escalationId: string, seconds: number) => Promise<void> | undefined) | undefined;
  /** Returns the digest by which a repeated call gets the response of an approved one. Default: responses are not kept. */
  readonly digestOf?: CallDigest | undefined;
  /** Checks, after an approval, that the tool of the action has not changed. Default: it has not. */
  readonly isUnchanged?: (() => Promise<boolean>) | undefined;
}

/** Decision on an action. */
export type DecidedOutcome =
  /** The action may run with these arguments, once. */
  | {
      readonly kind: "allowed";
      readonly arguments: JsonObject;
      readonly sealed: SealedDecision;
      /** True if a person approved the action. */
      readonly isApproved: boolean;
    }
  | { readonly kind: "blocked"; readonly sealed: SealedDecision }
  /** The action waits for a person; `edited`: the arguments that one gave it and another still has to approve. */
  | { readonly kind: "pending"; readonly sealed: SealedDecision; readonly edited?: JsonObject | undefined };

/** Outcome of a held action; `pending` if nobody answered in time, while the escalation continues. */
export type HeldOutcome =
  | DecidedOutcome
  | { readonly kind: "rejected"; readonly sealed: SealedDecision; readonly escalation: Escalation }
  /** The action is approved, but its tool has changed. */
  | { readonly kind: "changed"; readonly sealed: SealedDecision };

/** Parts of `HeldActions`. */
export interface HeldActionsOptions {
  readonly intercept: Intercept;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly pool: Pool;
  /** Queue for actions in large messages. */
  readonly largeRequests: Pick<LargeRequests, "giveWay">;
  /** Checks a request for a decision as every request is checked. Throws INVALID_FIELD and BODY_TOO_DEEP. */
  readonly check: (request: InterceptRequest) => void;
}

/** Milliseconds between two calls of `onWaiting`. */
const WAITING_MS = 10_000;

/** Decides actions, and holds those that wait for a person. */
export class HeldActions {
  readonly #options: HeldActionsOptions;
  readonly #feeds = new WeakMap<WorkspaceLog, EscalationFeed>();

  constructor(options: HeldActionsOptions) {
    this.#options = options;
  }

  /**
   * Decides an action, and claims it with the decision if it is allowed: no one else may run it. Presents `escalationId`, else an unused
   * approval of the same action.
   */
  async intercept(action: HeldAction, args: JsonObject, escalationId?: string): Promise<SealedDecision> {
    const receivedAt = performance.now();
    const asked = await this.#asked(action, args);
    const isRefused = action.marks?.refusal !== undefined;
    const presented = isRefused ? undefined : (escalationId ?? (await this.#earlier(action, asked)).approval);
    return this.#intercept(action, asked, { presented, receivedAt });
  }

  /** Decides an action, unless an approved call of this very action is there whose response has reached nobody. */
  async interceptOrFind(action: HeldAction): Promise<SealedDecision | { readonly earlier: ApprovedCall }> {
    const receivedAt = performance.now();
    const asked = await this.#asked(action, action.arguments);
    const { approval: presented, call } = await this.#earlier(action, asked, action.digestOf);
    return call === undefined ? this.#intercept(action, asked, { presented, receivedAt }) : { earlier: call };
  }

  /** Returns the digest by which a repeated call gets the response of this one. */
  async digestOfCall(action: HeldAction): Promise<string> {
    const log = await this.#options.logs.of(action.caller.workspaceId);
    const digest = approvedDigest(await log.caughtUp(), await this.#asked(action, action.arguments));
    return action.digestOf?.(digest) ?? digest;
  }

  /** Tests whether an action is blocked now, whatever its arguments. */
  async isAlwaysBlocked(action: HeldAction): Promise<boolean> {
    const { workspaceId, agentId, isEnded } = action.caller;
    const log = await this.#options.logs.of(workspaceId);
    const asked = await this.#asked(action, action.arguments);
    return isEnded || alwaysBlockedFor(await log.caughtUp(), agentId, log.nowMs)(asked);
  }

  /** Creates the action to decide. */
  async #asked(action: HeldAction, args: JsonObject): Promise<Action> {
    const { caller, signal, bytes, trace } = action;
    const { workspaceId, keyId, role, agentId, isKeyBound } = caller;
    const giveWay = () => this.#options.largeRequests.giveWay({ workspaceId, agentId, bytes, signal });
    await giveWay();
    const asked = action.requestFor(args);
    const request = create(InterceptRequestSchema, { ...asked, agentId });
    this.#options.check(request);
    await giveWay();
    // Only what passes has a canonical form, which is checked in its turn: it may be longer than the text that came.
    request.actionContent = canonicalJson(asked.metadata.arguments);
    this.#options.check({ ...request, metadata: undefined });
    await giveWay();
    return actionFrom(request, { keyId, workspaceId, role, agentId: isKeyBound ? agentId : null }, trace);
  }

  async #earlier({ caller }: HeldAction, asked: Action, digestOf?: CallDigest): Promise<Earlier> {
    return findEarlier(await this.#options.logs.of(caller.workspaceId), this.#options.pool, asked, digestOf);
  }

  async #intercept(
    { caller: { workspaceId, agentId }, signal, bytes, marks, wire }: HeldAction,
    asked: Action,
    { presented, receivedAt }: Pick<InterceptCommand, "receivedAt"> & { readonly presented: string | undefined },
  ): Promise<SealedDecision> {
    const waiter = {
      get isOver() {
        return signal.aborted;
      },
      signal,
    };
    await this.#options.largeRequests.giveWay({ workspaceId, agentId, bytes, signal });
    const action = { ...asked, ...marks, escalationId: presented, claimId: randomUUID() };
    const sealed = await this.#options.intercept({ workspaceId, action, waiter, wire, receivedAt });
    if (sealed.decision !== "allow" || sealed.isClaimed === true) return sealed;
    const { decisionId } = sealed;
    const message = `decision \`${decisionId}\` is claimed by another call; this one does not run`;
    throw new ControlPlaneError(ErrorReason.ALREADY_CLAIMED, message, { decision_id: decisionId });
  }

  /** Decides an action, and waits for a person if it escalates. Rejects when the signal aborts. */
  async decide(action: HeldAction): Promise<HeldOutcome> {
    return this.settle(action, await this.intercept(action, action.arguments));
  }

  /** Waits for a person if a decided action escalated. Rejects when the signal aborts. */
  async settle(action: HeldAction, decided: SealedDecision): Promise<HeldOutcome> {
    const startedAt = performance.now();
    const ending = AbortSignal.timeout(action.holdMs);
    const signal = AbortSignal.any([action.signal, ending]);
    let outcome: HeldOutcome = outcomeOf(decided, action.arguments);
    while (outcome.kind === "pending") {
      const { sealed }: DecidedOutcome = outcome;
      const escalation = await this.#answered(action, sealed, signal, startedAt);
      action.signal.throwIfAborted();
      if (escalation === undefined) return outcome;
      if (escalation.status === "pending") return pendingEdit(sealed, escalation);
      if (isRejected(escalation)) return { kind: "rejected", sealed, escalation };
      outcome = (await this.resume(action, escalation)) ?? { kind: "changed", sealed };
      // Escalated again: an identical call has used the approval, so this one waits for another.
      if (ending.aborted || escalation.status === "rejected") return outcome;
    }
    return outcome;
  }

  /**
   * Decides an action again with the approval of its escalation, and with the person's edited arguments if there are any.
   * Undefined if the action's tool has changed.
   */
  async resume(action: HeldAction, approved: Escalation): Promise<DecidedOutcome | undefined> {
    if (!((await action.isUnchanged?.()) ?? true)) return undefined;
    const { editedArguments, escalationId, replacedBy } = approved;
    if (editedArguments === null) {
      return outcomeOf(await this.intercept(action, action.arguments, escalationId), action.arguments);
    }
    const args = JSON.parse(editedArguments) as JsonObject;
    const outcome = outcomeOf(await this.intercept(action, args, replacedBy ?? undefined), args);
    // The person who edited the action approved it, also where no rule asks for an approval of the new arguments.
    return outcome.kind === "allowed" ? { ...outcome, isApproved: true } : outcome;
  }

  /**
   * Returns the escalation that stands in the place of another: where two people have to agree, the edited action waits for another
   * person, who may edit it again. An edit that stands is approved.
   */
  async standing(caller: McpCaller, escalation: Escalation): Promise<Escalation> {
    for (let standing = escalation; ; ) {
      if (standing.editedArguments === null || standing.replacedBy === null) return standing;
      const edited = await this.escalation(caller, standing.replacedBy);
      if (edited.status === "approved") return standing;
      standing = edited;
    }
  }

  /** Returns an escalation of the caller's agent. Rejects with ESCALATION_NOT_FOUND. */
  async escalation({ workspaceId, agentId }: McpCaller, escalationId: string): Promise<Escalation> {
    const log = await this.#options.logs.of(workspaceId);
    return getEscalation({ log, pool: this.#options.pool }, escalationId, agentId);
  }

  /** Withdraws one request of the caller's agent for approval. Does nothing if the escalation is resolved. */
  async withdraw({ workspaceId, agentId, keyId: by }: McpCaller, escalationId: string): Promise<void> {
    const log = await this.#options.logs.of(workspaceId);
    try {
      await withdrawEscalation({ log, pool: this.#options.pool }, { escalationId, by, agentId });
    } catch (error) {
      if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.ESCALATION_RESOLVED) throw error;
    }
  }

  /** Tests whether the approval of an escalation was used or has expired. */
  async isSpent({ workspaceId }: McpCaller, { status, usedBy, expiresAtMs }: Escalation): Promise<boolean> {
    const { nowMs } = await this.#options.logs.of(workspaceId);
    return usedBy !== null || (status === "approved" && expiresAtMs <= nowMs);
  }

  /**
   * Returns the escalation that stands once it is answered. If the signal aborts first, returns the pending one of the edited action,
   * and undefined for an action that nobody has edited.
   */
  async #answered(
    action: HeldAction,
    { escalationId = "" }: SealedDecision,
    signal: AbortSignal,
    startedAt: number,
  ): Promise<Escalation | undefined> {
    let asked: Escalation | undefined;
    let standing: Escalation | undefined;
    do {
      const answer = await this.#wait(action, standing?.escalationId ?? escalationId, signal, startedAt);
      if (answer === undefined) return standing;
      asked ??= answer;
      standing = await this.standing(action.caller, asked);
    } while (standing.status === "pending");
    return standing;
  }

  /** Returns an escalation once it is resolved; undefined if the signal aborts first. */
  async #wait(
    { caller: { workspaceId, agentId }, onWaiting }: HeldAction,
    escalationId: string,
    signal: AbortSignal,
    startedAt: number,
  ): Promise<Escalation | undefined> {
    const log = await this.#options.logs.of(workspaceId);
    const context = { log, feed: this.#feedOf(log), pool: this.#options.pool, heartbeatMs: WAITING_MS, signal };
    for await (const escalation of waitEscalation(context, escalationId, agentId)) {
      if (escalation !== undefined && escalation.status !== "pending") return escalation;
      await onWaiting?.(escalationId, Math.round((performance.now() - startedAt) / 1000));
    }
    return undefined;
  }

  #feedOf(log: WorkspaceLog): EscalationFeed {
    const feed = this.#feeds.get(log) ?? new EscalationFeed(log, this.#options.pool);
    this.#feeds.set(log, feed);
    return feed;
  }
}

function outcomeOf(sealed: SealedDecision, args: JsonObject): DecidedOutcome {
  if (sealed.decision === "allow") {
    return { kind: "allowed", arguments: args, sealed, isApproved: sealed.path === "approved" };
  }
  return { kind: sealed.decision === "block" ? "blocked" : "pending", sealed };
}

/** Returns the outcome of an action that a person edited and another still has to approve. */
function pendingEdit(sealed: SealedDecision, { escalationId, receipt }: Escalation): HeldOutcome {
  const edited = argumentsFrom(receipt.body.action.metadata);
  return { kind: "pending", sealed: { ...sealed, escalationId }, edited };
}

/** True for an escalation that was rejected without edited arguments. */
const isRejected = ({ status, editedArguments }: Escalation): boolean =>
  status === "rejected" && editedArguments === null;
