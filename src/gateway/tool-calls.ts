import type { JsonObject } from "@bufbuild/protobuf";
import type { ControlPlaneError } from "../errors.ts";
import type { Escalation } from "../escalation/escalation.ts";
import type { ReviewedTool } from "../registry/mcp-definitions.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { SealedDecision } from "../state/types.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { McpCaller } from "./caller.ts";
import type { HeldAction, HeldActions, HeldOutcome } from "./held-actions.ts";
import {
  blockedResult,
  decisionMeta,
  escalationPage,
  pendingResult,
  refusal,
  rejectedResult,
  spentResult,
} from "./tool-results.ts";

/** A call of a tool, from the message to the decision. */
export interface ToolCall {
  readonly server: McpServer;
  readonly caller: McpCaller;
  /** Session of the control plane; undefined for a stateless request. */
  readonly sessionId: string | undefined;
  /** The server's own name of the tool. */
  readonly tool: string;
  readonly arguments: JsonObject;
  /** Size of the message with the arguments. */
  readonly bytes: number;
  /** Aborts when nobody waits for the call any longer. */
  readonly signal: AbortSignal;
  /** Last review of the tool; undefined before the first one. */
  readonly known: ReviewedTool | undefined;
  /** Lists the server's tools now and reviews them. Returns the called tool; undefined if the server does not list it. */
  readonly review: () => Promise<ReviewedTool | undefined>;
  /** Reports to the client that the call is held; undefined if the client did not ask for progress. */
  readonly onHeld: ((message: string, seconds: number) => Promise<void>) | undefined;
  /** True if the client accepts a task instead of a result: the call is then not held. */
  readonly isTask: boolean;
}

/** The part of a call that is decided. */
type DecidedCall = Omit<ToolCall, "known" | "review" | "onHeld" | "isTask">;

/** Outcome of a call. */
export type ToolCallOutcome =
  | {
      readonly kind: "forward";
      readonly arguments: JsonObject;
      /** Arguments that clients repeat in headers. */
      readonly repeated: ReviewedTool["repeated"];
      readonly sealed: SealedDecision;
    }
  | ToolCallAnswer;

/** Outcome of deciding a call: a `ToolCallOutcome`, or an escalation for which the client waits as a task. */
export type DecidedOutcome = ToolCallOutcome | ToolCallEscalated;

/** A call that waits for a person. */
export interface ToolCallEscalated {
  readonly kind: "escalated";
  readonly sealed: SealedDecision;
}

/** A result instead of the tool's own. */
export interface ToolCallAnswer {
  readonly kind: "answer";
  readonly result: JsonObject;
  readonly sealed: SealedDecision | undefined;
}

/** Last review of a tool. */
interface Reviewed {
  tool: ReviewedTool | undefined;
}

/** Parts and settings of `ToolCalls`. */
export interface ToolCallsOptions {
  readonly held: HeldActions;
  /** Milliseconds that a call waits for a person, without and with progress. */
  readonly holdMs: number;
  readonly progressHoldMs: number;
  /** Base URL of the dashboard's pages; undefined if it is unknown. */
  readonly publicUrl: string | undefined;
}

/** Decides tool calls, and holds calls that wait for a person. */
export class ToolCalls {
  readonly #options: ToolCallsOptions;
  readonly #held: HeldActions;

  constructor(options: ToolCallsOptions) {
    this.#options = options;
    this.#held = options.held;
  }

  /**
   * Decides a call. Resolves with its outcome once a person has answered or the hold is over; for a task, at once. Rejects when
   * the signal aborts.
   */
  async decide(call: ToolCall): Promise<DecidedOutcome> {
    const { known } = call;
    const reviewed: Reviewed = { tool: known?.status === "active" ? known : await call.review() };
    const action = this.#heldAction(call, reviewed);
    for (;;) {
      const { tool } = reviewed;
      const unfit = refusalOf(call, tool);
      if (unfit !== undefined) return unfit;
      // Listing and decision cost a round trip each. They run at the same time, so an unchanged tool costs only one.
      const isFresh = tool !== known;
      const [sealed, now] = await Promise.all([
        this.#held.intercept(action, call.arguments),
        isFresh ? tool : call.review(),
      ]);
      if (now?.digest !== tool?.digest || now?.status !== tool?.status) {
        reviewed.tool = now;
        continue;
      }
      if (call.isTask && sealed.decision === "escalate") return { kind: "escalated", sealed };
      return this.#outcomeOf(call, await this.#held.settle(action, sealed), reviewed);
    }
  }

  /**
   * Decides a call of a caller that has ended, so that the block is on record. Rejects with `ended` if the decision is not a
   * block.
   */
  async refuse(call: DecidedCall, ended: ControlPlaneError): Promise<ToolCallAnswer> {
    const sealed = await this.#held.intercept(actionOf(call), call.arguments);
    if (sealed.decision !== "block") throw ended;
    return { kind: "answer", result: blockedResult(call.tool, sealed), sealed };
  }

  /** Returns an escalation of the caller's agent. Rejects with ESCALATION_NOT_FOUND. */
  escalation(caller: McpCaller, escalationId: string): Promise<Escalation> {
    return this.#held.escalation(caller, escalationId);
  }

  /** Withdraws one request of the caller's agent for approval. Does nothing if the escalation is resolved. */
  withdraw(caller: McpCaller, escalationId: string): Promise<void> {
    return this.#held.withdraw(caller, escalationId);
  }

  /** Makes the call of an approved task, if its approval can still be used. */
  async resume(call: ToolCall, resolved: Escalation): Promise<ToolCallOutcome> {
    const { replacedBy, editedArguments } = resolved;
    const isReplaced = replacedBy !== null && editedArguments !== null;
    const approval = isReplaced ? await this.escalation(call.caller, replacedBy) : resolved;
    if (await this.#held.isSpent(call.caller, approval)) {
      return { kind: "answer", result: spentResult(call.tool, approval), sealed: undefined };
    }
    const reviewed: Reviewed = { tool: undefined };
    const outcome = await this.#held.resume(this.#heldAction(call, reviewed), resolved);
    return outcome === undefined ? refused(call, reviewed) : this.#outcomeOf(call, outcome, reviewed);
  }

  /** Returns the page on which people decide an escalation; undefined if the service does not know its own address. */
  pageOf(escalationId: string | undefined): string | undefined {
    return escalationPage(this.#options.publicUrl, { escalationId });
  }

  #heldAction(call: ToolCall, reviewed: Reviewed): HeldAction {
    const { tool, onHeld } = call;
    const { holdMs, progressHoldMs } = this.#options;
    return {
      ...actionOf(call),
      holdMs: onHeld === undefined ? holdMs : progressHoldMs,
      onWaiting: (escalationId, seconds) =>
        onHeld?.(`waiting for a person to approve \`${tool}\` (escalation ${escalationId})`, seconds),
      async isUnchanged() {
        reviewed.tool = await call.review();
        return reviewed.tool?.status === "active";
      },
    };
  }

  #outcomeOf(call: ToolCall, outcome: HeldOutcome, reviewed: Reviewed): ToolCallOutcome {
    const { kind, sealed } = outcome;
    if (kind === "allowed") {
      return { kind: "forward", arguments: outcome.arguments, repeated: reviewed.tool?.repeated ?? [], sealed };
    }
    if (kind === "changed") return refused(call, reviewed);
    return { kind: "answer", result: this.#resultOf(call.tool, outcome), sealed };
  }

  #resultOf(tool: string, outcome: Exclude<HeldOutcome, { kind: "allowed" | "changed" }>): JsonObject {
    const { kind, sealed } = outcome;
    if (kind === "blocked") return blockedResult(tool, sealed);
    if (kind === "rejected") return rejectedResult(tool, decisionMeta(sealed), outcome.escalation);
    return pendingResult(tool, sealed, this.pageOf(sealed.escalationId));
  }
}

/** Returns the action of a call, without a hold. */
function actionOf({ server, caller, sessionId, tool, arguments: args, bytes, signal }: DecidedCall): HeldAction {
  const name = `${server.name}.${tool}`;
  return {
    caller,
    arguments: args,
    bytes,
    signal,
    holdMs: 0,
    requestFor: (asked) => ({
      actionType: name,
      tool: name,
      actionContent: canonicalJson(asked),
      metadata: { arguments: asked, mcp_server: server.name },
      ...(sessionId === undefined ? {} : { sessionId }),
    }),
  };
}

/** Refuses a call whose tool is no longer in force. */
function refused(call: ToolCall, { tool }: Reviewed): ToolCallOutcome {
  const unfit = refusalOf(call, tool);
  if (unfit === undefined) throw new Error("the tool is in force");
  return unfit;
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
