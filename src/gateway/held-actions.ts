import { create, type JsonObject } from "@bufbuild/protobuf";
import type { Pool } from "pg";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { actionFrom } from "../api/action.ts";
import type { Intercept } from "../decision/intercept.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type Escalation, getEscalation, withdrawEscalation } from "../escalation/escalation.ts";
import { EscalationFeed } from "../escalation/feed.ts";
import { waitEscalation } from "../escalation/watch.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { LargeRequests } from "../server/large-requests.ts";
import type { SealedDecision } from "../state/types.ts";
import type { McpCaller } from "./caller.ts";
import { findUsableApproval } from "./usable-approval.ts";

/** The action of a tool call, as it is asked for. */
export interface ToolRequest {
  readonly actionType: string;
  readonly tool: string;
  readonly actionContent: string;
  readonly metadata: JsonObject;
  readonly sessionId?: string;
}

/** An action of an agent whose runtime waits for the answer. */
export interface HeldAction {
  readonly caller: McpCaller;
  readonly arguments: JsonObject;
  /** The request that asks for the decision on these arguments. */
  readonly requestFor: (args: JsonObject) => ToolRequest;
  /** Size of the message that the action came in. */
  readonly bytes: number;
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Milliseconds for which it waits for a person; 0: not at all. */
  readonly holdMs: number;
  /** Called every 10 seconds while it waits. Default: nobody is told. */
  readonly onWaiting?: ((escalationId: string, seconds: number) => Promise<void> | undefined) | undefined;
  /** Checks, after a person has approved, that the action still is what it was. Default: it is. */
  readonly isUnchanged?: (() => Promise<boolean>) | undefined;
}

/** Decision on an action. */
export type DecidedOutcome =
  /** May run with these arguments, once. */
  | { readonly kind: "allowed"; readonly arguments: JsonObject; readonly sealed: SealedDecision }
  | { readonly kind: "blocked"; readonly sealed: SealedDecision }
  /** Waits for a person. */
  | { readonly kind: "pending"; readonly sealed: SealedDecision };

/** Fate of an action; `pending` if nobody answered in time, and then the escalation goes on. */
export type HeldOutcome =
  | DecidedOutcome
  | { readonly kind: "rejected"; readonly sealed: SealedDecision; readonly escalation: Escalation }
  /** Approved, but no longer what it was. */
  | { readonly kind: "changed"; readonly sealed: SealedDecision };

/** Parts of `HeldActions`. */
export interface HeldActionsOptions {
  readonly intercept: Intercept;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly pool: Pool;
  /** Turns of actions that came in large messages. */
  readonly largeRequests: Pick<LargeRequests, "giveWay">;
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

  /** Decides an action by the one use-case. Presents `escalationId`, else an unused approval of the same action. */
  async intercept(action: HeldAction, args: JsonObject, escalationId?: string): Promise<SealedDecision> {
    const { caller, signal, bytes } = action;
    const { workspaceId, keyId, role, agentId, isKeyBound } = caller;
    const step = { workspaceId, bytes, signal };
    await this.#options.largeRequests.giveWay(step);
    const request = create(InterceptRequestSchema, { ...action.requestFor(args), agentId });
    const asked = actionFrom(request, { keyId, workspaceId, role, agentId: isKeyBound ? agentId : null });
    const log = await this.#options.logs.of(workspaceId);
    const presented = escalationId ?? (await findUsableApproval(log, this.#options.pool, asked));
    const waiter = {
      get isOver() {
        return signal.aborted;
      },
      signal,
    };
    await this.#options.largeRequests.giveWay(step);
    return this.#options.intercept({ workspaceId, action: { ...asked, escalationId: presented }, waiter });
  }

  /** Decides an action and waits for the person whom it needs. Rejects when the signal aborts. */
  async decide(action: HeldAction): Promise<HeldOutcome> {
    return this.settle(action, await this.intercept(action, action.arguments));
  }

  /** Waits for the person whom a decided action needs. Rejects when the signal aborts. */
  async settle(action: HeldAction, decided: SealedDecision): Promise<HeldOutcome> {
    const startedAt = performance.now();
    const ending = AbortSignal.timeout(action.holdMs);
    const signal = AbortSignal.any([action.signal, ending]);
    let outcome: HeldOutcome = outcomeOf(decided, action.arguments);
    while (outcome.kind === "pending") {
      const { sealed }: DecidedOutcome = outcome;
      const escalation = await this.#wait(action, sealed, signal, startedAt);
      action.signal.throwIfAborted();
      if (escalation === undefined) return outcome;
      if (isRejected(escalation)) return { kind: "rejected", sealed, escalation };
      outcome = (await this.resume(action, escalation)) ?? { kind: "changed", sealed };
      // Escalated again: another identical call has used the approval, and this one waits for its own.
      if (ending.aborted || escalation.status === "rejected") return outcome;
    }
    return outcome;
  }

  /**
   * Decides an action with the approval of its escalation, and with the arguments that the person put in place of its own. Undefined if
   * the action is no longer what it was.
   */
  async resume(action: HeldAction, approved: Escalation): Promise<DecidedOutcome | undefined> {
    if (!((await action.isUnchanged?.()) ?? true)) return undefined;
    const { editedArguments, escalationId, replacedBy } = approved;
    if (editedArguments === null) {
      return outcomeOf(await this.intercept(action, action.arguments, escalationId), action.arguments);
    }
    const args = JSON.parse(editedArguments) as JsonObject;
    return outcomeOf(await this.intercept(action, args, replacedBy ?? undefined), args);
  }

  /** Returns an escalation of the caller's agent. Rejects with ESCALATION_NOT_FOUND. */
  async escalation({ workspaceId, agentId }: McpCaller, escalationId: string): Promise<Escalation> {
    const log = await this.#options.logs.of(workspaceId);
    return getEscalation({ log, pool: this.#options.pool }, escalationId, agentId);
  }

  /** Takes back one ask of the caller's agent. Does nothing for an escalation that has been resolved. */
  async withdraw({ workspaceId, agentId, keyId: by }: McpCaller, escalationId: string): Promise<void> {
    const log = await this.#options.logs.of(workspaceId);
    try {
      await withdrawEscalation({ log, pool: this.#options.pool }, { escalationId, by, agentId });
    } catch (error) {
      if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.ESCALATION_RESOLVED) throw error;
    }
  }

  /** Tells if the approval of an escalation was used or has expired. */
  async isSpent({ workspaceId }: McpCaller, { status, usedBy, expiresAtMs }: Escalation): Promise<boolean> {
    const { nowMs } = await this.#options.logs.of(workspaceId);
    return usedBy !== null || (status === "approved" && expiresAtMs <= nowMs);
  }

  /** Returns the escalation once it is resolved; undefined when the signal aborts before. */
  async #wait(
    { caller: { workspaceId, agentId }, onWaiting }: HeldAction,
    { escalationId = "" }: SealedDecision,
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
  if (sealed.decision === "allow") return { kind: "allowed", arguments: args, sealed };
  return { kind: sealed.decision === "block" ? "blocked" : "pending", sealed };
}

/** True for an escalation that was rejected, and not with other arguments in place of its own. */
const isRejected = ({ status, editedArguments }: Escalation): boolean =>
  status === "rejected" && editedArguments === null;
