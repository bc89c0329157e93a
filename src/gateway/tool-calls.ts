import { create, type JsonObject } from "@bufbuild/protobuf";
import type { Pool } from "pg";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { actionFrom } from "../api/action.ts";
import type { Intercept } from "../decision/intercept.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type Escalation, getEscalation, withdrawEscalation } from "../escalation/escalation.ts";
import { EscalationFeed } from "../escalation/feed.ts";
import { findUsableApproval } from "../escalation/usable-approval.ts";
import { waitEscalation } from "../escalation/watch.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { ReviewedTool } from "../registry/mcp-definitions.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { SealedDecision } from "../state/types.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { McpCaller } from "./caller.ts";
import { blockedResult, decisionMeta, pendingResult, refusal, rejectedResult, spentResult } from "./tool-results.ts";

/** A call of a tool, from the message to the decision. */
export interface ToolCall {
  readonly server: McpServer;
  readonly caller: McpCaller;
  /** The session of the control plane; undefined for a stateless request. */
  readonly sessionId: string | undefined;
  /** The tool's name as its server knows it. */
  readonly tool: string;
  readonly arguments: JsonObject;
  /** Aborts when nobody waits for the call any more. */
  readonly signal: AbortSignal;
  /** The tool as it was last reviewed; undefined if it was not yet. */
  readonly known: ReviewedTool | undefined;
  /** Lists the server's tools now and reviews them. Returns the called one; undefined if the server lists no such tool. */
  readonly review: () => Promise<ReviewedTool | undefined>;
  /** Tells a client that asked for progress that the call is held; undefined for one that did not. */
  readonly onHeld: ((message: string, seconds: number) => Promise<void>) | undefined;
  /** True for a client that takes a task in place of a result: the call is not held. */
  readonly isTask: boolean;
}

/** The part of a call that is decided. */
type DecidedCall = Omit<ToolCall, "known" | "review" | "onHeld" | "isTask">;

/** What becomes of a call. */
export type ToolCallOutcome =
  | {
      readonly kind: "forward";
      readonly arguments: JsonObject;
      /** Arguments that clients repeat in headers. */
      readonly repeated: ReviewedTool["repeated"];
      readonly sealed: SealedDecision;
    }
  | ToolCallAnswer;

/** What becomes of a call that is decided now: as above, or an escalation that the client waits for as a task. */
export type DecidedOutcome = ToolCallOutcome | ToolCallEscalated;

/** A call that waits for a person. */
export interface ToolCallEscalated {
  readonly kind: "escalated";
  readonly sealed: SealedDecision;
}

/** An answer in place of the tool's own. */
export interface ToolCallAnswer {
  readonly kind: "answer";
  readonly result: JsonObject;
  readonly sealed: SealedDecision | undefined;
}

/** Parts and settings of `ToolCalls`. */
export interface ToolCallsOptions {
  readonly intercept: Intercept;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly pool: Pool;
  /** Milliseconds for which a call waits for a person, without and with progress. */
  readonly holdMs: number;
  readonly progressHoldMs: number;
  /** Base URL of the dashboard's pages; undefined: none is known. */
  readonly publicUrl: string | undefined;
}

/** Milliseconds between two messages of progress. */
const PROGRESS_MS = 10_000;

/** Decides the calls of tools, and holds those that wait for a person. */
export class ToolCalls {
  readonly #options: ToolCallsOptions;
  readonly #feeds = new WeakMap<WorkspaceLog, EscalationFeed>();

  constructor(options: ToolCallsOptions) {
    this.#options = options;
  }

  /**
   * Decides a call. Resolves with its fate once a person has answered or the hold is over; for a task, at once. Rejects when the signal
   * aborts.
   */
  async decide(call: ToolCall): Promise<DecidedOutcome> {
    const { known } = call;
    let tool = known?.status === "active" ? known : await call.review();
    for (;;) {
      const unfit = refusalOf(call, tool);
      if (unfit !== undefined) return unfit;
      // The listing costs a round trip, as the decision does: a tool that is as it was costs one of the two.
      const isFresh = tool !== known;
      const [sealed, now] = await Promise.all([
        this.#intercept(call, call.arguments, undefined),
        isFresh ? tool : call.review(),
      ]);
      if (now?.digest !== tool?.digest || now?.status !== tool?.status) {
        tool = now;
        continue;
      }
      return this.#settle(call, sealed, tool?.repeated ?? []);
    }
  }

  /** Decides a call of a caller that has ended, which is blocked on record. Rejects with `ended` should it not be. */
  async refuse(call: DecidedCall, ended: ControlPlaneError): Promise<ToolCallAnswer> {
    const sealed = await this.#intercept(call, call.arguments, undefined);
    if (sealed.decision !== "block") throw ended;
    return { kind: "answer", result: blockedResult(call.tool, sealed), sealed };
  }

  async #settle(call: ToolCall, sealed: SealedDecision, repeated: ReviewedTool["repeated"]): Promise<DecidedOutcome> {
    if (sealed.decision === "allow") return { kind: "forward", arguments: call.arguments, repeated, sealed };
    if (sealed.decision === "block") return { kind: "answer", result: blockedResult(call.tool, sealed), sealed };
    return call.isTask ? { kind: "escalated", sealed } : this.#hold(call, sealed);
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

  /** Makes the call of a task that a person approved, if its approval can still be used. */
  async resume(call: ToolCall, resolved: Escalation): Promise<ToolCallOutcome> {
    const { nowMs } = await this.#options.logs.of(call.caller.workspaceId);
    const approval =
      resolved.replacedBy !== null && resolved.editedArguments !== null
        ? await this.escalation(call.caller, resolved.replacedBy)
        : resolved;
    if (approval.usedBy !== null || (approval.status === "approved" && approval.expiresAtMs <= nowMs)) {
      return { kind: "answer", result: spentResult(call.tool, approval), sealed: undefined };
    }
    const made = await this.#make(call, resolved);
    return made.kind === "escalated" ? this.#pending(call, made.sealed) : made;
  }

  /** Returns the page on which people decide an escalation; undefined if the service does not know its own address. */
  pageOf(escalationId: string | undefined): string | undefined {
    const { publicUrl } = this.#options;
    return publicUrl === undefined ? undefined : `${publicUrl}/escalations/${escalationId}`;
  }

  /** Decides by the one use-case. Presents an unused approval of the same action. */
  async #intercept(call: DecidedCall, args: JsonObject, escalationId: string | undefined): Promise<SealedDecision> {
    const { server, caller, sessionId, tool, signal } = call;
    const { workspaceId, keyId, role, agentId, isKeyBound } = caller;
    const name = `${server.name}.${tool}`;
    const request = create(InterceptRequestSchema, {
      ...{ agentId, actionType: name, tool: name, actionContent: canonicalJson(args) },
      metadata: { arguments: args, mcp_server: server.name },
      ...(sessionId === undefined ? {} : { sessionId }),
    });
    const action = actionFrom(request, { keyId, workspaceId, role, agentId: isKeyBound ? agentId : null });
    const log = await this.#options.logs.of(workspaceId);
    const presented = escalationId ?? (await findUsableApproval(log, this.#options.pool, action));
    const waiter = {
      get isOver() {
        return signal.aborted;
      },
      signal,
    };
    return this.#options.intercept({ workspaceId, action: { ...action, escalationId: presented }, waiter });
  }

  /** Waits for a person. */
  async #hold(call: ToolCall, escalated: SealedDecision): Promise<ToolCallOutcome> {
    const { holdMs, progressHoldMs } = this.#options;
    const startedAt = performance.now();
    const ending = AbortSignal.timeout(call.onHeld === undefined ? holdMs : progressHoldMs);
    const signal = AbortSignal.any([call.signal, ending]);
    let sealed = escalated;
    for (;;) {
      const resolved = await this.#wait(call, sealed, signal, startedAt);
      call.signal.throwIfAborted();
      if (resolved === undefined) return this.#pending(call, sealed);
      if (resolved.status === "rejected" && resolved.editedArguments === null) {
        return { kind: "answer", result: rejectedResult(call.tool, decisionMeta(sealed), resolved), sealed };
      }
      const made = await this.#make(call, resolved);
      if (made.kind !== "escalated") return made;
      if (resolved.status === "rejected" || ending.aborted) return this.#pending(call, made.sealed);
      // Another identical call has used the approval: this one waits for its own.
      sealed = made.sealed;
    }
  }

  /** Decides the call of a resolved escalation with its approval, and with the arguments that a person put in place of its own. */
  async #make(call: ToolCall, resolved: Escalation): Promise<DecidedOutcome> {
    const now = await call.review();
    const unfit = refusalOf(call, now);
    if (unfit !== undefined) return unfit;
    const isEdited = resolved.status === "rejected";
    const args = isEdited ? (JSON.parse(resolved.editedArguments as string) as JsonObject) : call.arguments;
    const approval = isEdited ? (resolved.replacedBy ?? undefined) : resolved.escalationId;
    const sealed = await this.#intercept(call, args, approval);
    if (sealed.decision === "allow") {
      return { kind: "forward", arguments: args, repeated: now?.repeated ?? [], sealed };
    }
    if (sealed.decision === "escalate") return { kind: "escalated", sealed };
    return { kind: "answer", result: blockedResult(call.tool, sealed), sealed };
  }

  /** Returns the escalation once it is resolved; undefined when the signal aborts before. */
  async #wait(
    call: ToolCall,
    { escalationId = "" }: SealedDecision,
    signal: AbortSignal,
    startedAt: number,
  ): Promise<Escalation | undefined> {
    const { workspaceId, agentId } = call.caller;
    const log = await this.#options.logs.of(workspaceId);
    const context = { log, feed: this.#feedOf(log), pool: this.#options.pool, heartbeatMs: PROGRESS_MS, signal };
    for await (const escalation of waitEscalation(context, escalationId, agentId)) {
      if (escalation !== undefined && escalation.status !== "pending") return escalation;
      const seconds = Math.round((performance.now() - startedAt) / 1000);
      const message = `waiting for a person to approve \`${call.tool}\` (escalation ${escalationId})`;
      await call.onHeld?.(message, seconds);
    }
    return undefined;
  }

  #pending({ tool }: ToolCall, sealed: SealedDecision): ToolCallAnswer {
    return { kind: "answer", result: pendingResult(tool, sealed, this.pageOf(sealed.escalationId)), sealed };
  }

  #feedOf(log: WorkspaceLog): EscalationFeed {
    const feed = this.#feeds.get(log) ?? new EscalationFeed(log, this.#options.pool);
    this.#feeds.set(log, feed);
    return feed;
  }
}

/** Refuses a call of a tool that is not pinned: unknown, unusable, or waiting for a person to accept it. */
function refusalOf({ server, tool }: ToolCall, reviewed: ReviewedTool | undefined): ToolCallOutcome | undefined {
  if (reviewed?.status === "active") return undefined;
  const [code, why] =
    reviewed === undefined
      ? ["TOOL_UNKNOWN", `server \`${server.name}\` lists no tool of this name`]
      : reviewed.status === "quarantined"
        ? ["TOOL_QUARANTINED", "the tool is new or has changed, and waits for a person to accept it"]
        : ["TOOL_UNUSABLE", reviewed.reason ?? "its definition cannot be registered"];
  const text = `The control plane refused this call of \`${tool}\`: ${why}. The tool did not run.`;
  const reasons = [{ code, message: why }];
  return { kind: "answer", result: refusal(text, { decision: "block", reasons }), sealed: undefined };
}
