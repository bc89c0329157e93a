import { create, type JsonObject } from "@bufbuild/protobuf";
import type { Pool } from "pg";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { actionFrom } from "../api/action.ts";
import type { Intercept } from "../decision/intercept.ts";
import type { ControlPlaneError } from "../errors.ts";
import type { Escalation } from "../escalation/escalation.ts";
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
import { blockedResult, pendingResult, refusal, rejectedResult } from "./tool-results.ts";

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
}

/** The part of a call that is decided. */
type DecidedCall = Omit<ToolCall, "known" | "review" | "onHeld">;

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

  /** Decides a call. Resolves with its fate once a person has answered or the hold is over. Rejects when the signal aborts. */
  async decide(call: ToolCall): Promise<ToolCallOutcome> {
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

  async #settle(call: ToolCall, sealed: SealedDecision, repeated: ReviewedTool["repeated"]): Promise<ToolCallOutcome> {
    if (sealed.decision === "allow") return { kind: "forward", arguments: call.arguments, repeated, sealed };
    if (sealed.decision === "block") return { kind: "answer", result: blockedResult(call.tool, sealed), sealed };
    return this.#hold(call, sealed);
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
        return { kind: "answer", result: rejectedResult(call.tool, sealed, resolved), sealed };
      }
      const now = await call.review();
      const unfit = refusalOf(call, now);
      if (unfit !== undefined) return unfit;
      const isEdited = resolved.status === "rejected";
      const args = isEdited ? (JSON.parse(resolved.editedArguments as string) as JsonObject) : call.arguments;
      const approval = isEdited ? (resolved.replacedBy ?? undefined) : resolved.escalationId;
      const decided = await this.#intercept(call, args, approval);
      if (decided.decision === "allow") {
        return { kind: "forward", arguments: args, repeated: now?.repeated ?? [], sealed: decided };
      }
      if (decided.decision === "block" || isEdited || ending.aborted) {
        const result =
          decided.decision === "block" ? blockedResult(call.tool, decided) : this.#pendingResult(call, decided);
        return { kind: "answer", result, sealed: decided };
      }
      // Another identical call has used the approval: this one waits for its own.
      sealed = decided;
    }
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

  #pending(call: ToolCall, sealed: SealedDecision): ToolCallOutcome {
    return { kind: "answer", result: this.#pendingResult(call, sealed), sealed };
  }

  #pendingResult({ tool }: ToolCall, sealed: SealedDecision): JsonObject {
    const { publicUrl } = this.#options;
    const page = publicUrl === undefined ? undefined : `${publicUrl}/escalations/${sealed.escalationId}`;
    return pendingResult(tool, sealed, page);
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
