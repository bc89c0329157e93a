import type { JsonObject } from "@bufbuild/protobuf";
import type { ControlPlaneError } from "../errors.ts";
import type { Escalation } from "../escalation/escalation.ts";
import { nameFault, toolNameFault } from "../policy/names.ts";
import { printable } from "../registry/mcp-changes.ts";
import type { ReviewedTool } from "../registry/mcp-definitions.ts";
import { reservedNameFault, UNNAMEABLE_CALL } from "../registry/mcp-method-tools.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { DecisionReason, SealedDecision } from "../state/types.ts";
import type { TracePlace } from "../tracing/trace-context.ts";
import type { ApprovedCalls } from "./approved-calls.ts";
import { NOT_SENT } from "./call-end.ts";
import type { McpCaller } from "./caller.ts";
import type { ListingAge } from "./definition-lists.ts";
import type { CallDigest } from "./earlier-calls.ts";
import type { HeldAction, HeldActions, HeldOutcome } from "./held-actions.ts";
import type { ApprovedCall, KeptAnswer } from "./kept-results.ts";
import type { OutcomeReports } from "./outcome-reports.ts";
import {
  blockedResult,
  decisionMeta,
  escalationPage,
  keptAnswer,
  lostResult,
  pendingResult,
  refusedResult,
  rejectedResult,
  runningResult,
  runningText,
  spentResult,
  waitingText,
} from "./tool-results.ts";

/** A call of a tool, or a request of another method that is decided as one, from the message to the decision. */
export interface ToolCall {
  readonly server: McpServer;
  readonly caller: McpCaller;
  /** Session of the control plane; undefined for a stateless request. */
  readonly sessionId: string | undefined;
  /** The server's own name of the tool; for a request of another method, the method. */
  readonly tool: string;
  readonly arguments: JsonObject;
  /** Digest of what is forwarded beside tool and arguments and what rules cannot read. Default: nothing is. */
  readonly unreadDigest?: string | undefined;
  /** True if the decision changes no trust. Default false. */
  readonly keepsTrust?: boolean;
  /** Size of the message with the arguments. */
  readonly bytes: number;
  /** Place in the trace of the call; undefined for a call without one. */
  readonly trace: TracePlace | undefined;
  /** Aborts when nobody waits for the call any longer. */
  readonly signal: AbortSignal;
  /** Last review of the tool; undefined before the first one. */
  readonly known: ReviewedTool | undefined;
  /**
   * Returns the called tool as a listing of the given age has it, by default one within the server's drift; undefined if the
   * server does not list it. The whole member is undefined for a request of another method, which calls no tool.
   */
  readonly review: ((age?: ListingAge) => Promise<ReviewedTool | undefined>) | undefined;
  /**
   * Explains why the prompt or resource of a request of another method may not be used, by a listing of the given age; undefined
   * if it may.
   */
  readonly refusal?: ((age?: ListingAge) => Promise<string | undefined>) | undefined;
  /** Reports to the client that the call is held; undefined if the client did not ask for progress. */
  readonly onHeld: ((message: string, seconds: number) => Promise<void>) | undefined;
  /** Base URL of the dashboard's pages; undefined if the service does not know its own address. */
  readonly publicUrl: string | undefined;
  /** True if the client accepts a task instead of a result: the call is then not held. */
  readonly isTask: boolean;
  /** Returns the digest by which a repeated call gets the response of this one. */
  readonly digestOf: CallDigest;
}

/** The part of a call that is decided. */
type DecidedCall = Omit<ToolCall, "known" | "onHeld" | "publicUrl" | "isTask" | "digestOf">;

/** Outcome of a call. */
export type ToolCallOutcome =
  | {
      readonly kind: "forward";
      readonly arguments: JsonObject;
      /** Arguments that clients repeat in headers. */
      readonly repeated: ReviewedTool["repeated"];
      readonly sealed: SealedDecision;
      /** The action, if a person approved it: the call then goes on when its client leaves. */
      readonly approved: HeldAction | undefined;
    }
  | ToolCallAnswer;

/**
 * Outcome of deciding a call: a `ToolCallOutcome`, an escalation for which the client waits as a task, or what became of an
 * earlier identical call that was approved.
 */
export type DecidedOutcome = ToolCallOutcome | ToolCallEscalated | ToolCallRecalled;

/** The answer to an earlier identical call. MUST be put back if the client does not get it. */
export interface ToolCallRecalled {
  readonly kind: "recalled";
  readonly answer: KeptAnswer;
  /** The decision that allowed the earlier call. */
  readonly decisionId: string;
  readonly sealed: undefined;
  putBack(): Promise<void>;
}

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
  readonly approved: Pick<ApprovedCalls, "recall">;
  readonly outcomes: Pick<OutcomeReports, "outcomeOf">;
  /** Milliseconds that a call waits for a person. */
  readonly holdMs: number;
  /** The same for a client that asked for progress. Default: `holdMs`. */
  readonly progressHoldMs: number | undefined;
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
    const { known, review } = call;
    const isKnown = review === undefined || known?.status === "active";
    const waits = review === undefined ? await call.refusal?.() : undefined;
    if (waits !== undefined) return this.#refusedFor(call, { code: "TOOL_QUARANTINED", message: waits });
    const reviewed: Reviewed = { tool: isKnown ? known : await review() };
    const action = this.#heldAction(call, reviewed);
    let hasLooked = call.isTask;
    for (;;) {
      const { tool } = reviewed;
      if (review !== undefined && tool?.status !== "active") return this.#refused(call, reviewed);
      // Listing and decision cost a round trip each. They run at the same time, so an unchanged tool costs only one.
      const isFresh = review === undefined || tool !== known;
      const deciding = hasLooked ? this.#held.intercept(action, call.arguments) : this.#held.interceptOrFind(action);
      const [decided, now] = await Promise.all([deciding, isFresh ? tool : review()]).catch((error: unknown) => {
        void deciding.then((late) => this.#drop(call, late)).catch(() => undefined);
        throw error;
      });
      if (now?.digest !== tool?.digest || now?.status !== tool?.status) {
        this.#drop(call, decided);
        reviewed.tool = now;
        continue;
      }
      if ("earlier" in decided) {
        const recalled = await this.#recall(call, action, decided.earlier);
        if (recalled !== undefined) return recalled;
        hasLooked = true;
        continue;
      }
      const sealed = decided;
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

  /** Returns the escalation that stands in the place of another once that was edited. */
  standing(caller: McpCaller, escalation: Escalation): Promise<Escalation> {
    return this.#held.standing(caller, escalation);
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
    return outcome === undefined ? this.#refused(call, reviewed) : this.#outcomeOf(call, outcome, reviewed);
  }

  /** Reports that a call is not made that was allowed, because its tool has changed or cannot be looked at. */
  #drop({ caller }: ToolCall, decided: SealedDecision | { readonly earlier: ApprovedCall }): void {
    if (!("earlier" in decided)) this.#options.outcomes.outcomeOf(caller, [decided])?.end(NOT_SENT);
  }

  /** Returns what became of an earlier identical call; undefined if the call is to be decided like any other. */
  async #recall(
    { tool, onHeld }: ToolCall,
    action: HeldAction,
    earlier: ApprovedCall,
  ): Promise<ToolCallRecalled | ToolCallAnswer | undefined> {
    const recalled = await this.#options.approved.recall(action, earlier, async (decisionId, seconds) =>
      onHeld?.(runningText(tool, decisionId), seconds),
    );
    if (recalled === undefined) return undefined;
    const { decisionId } = recalled.call;
    if (recalled.kind === "running") {
      return { kind: "answer", result: runningResult(tool, decisionId), sealed: undefined };
    }
    const { answer, status, putBack } = recalled.taken;
    const given =
      answer === undefined ? { result: lostResult(tool, decisionId, status) } : keptAnswer(answer, decisionId);
    return { kind: "recalled", answer: given, decisionId, sealed: undefined, putBack };
  }

  #heldAction(call: ToolCall, reviewed: Reviewed): HeldAction {
    const { tool, onHeld, publicUrl, digestOf } = call;
    const { holdMs, progressHoldMs } = this.#options;
    return {
      ...actionOf(call),
      digestOf,
      holdMs: onHeld === undefined ? holdMs : (progressHoldMs ?? holdMs),
      onWaiting: (escalationId, seconds) => onHeld?.(waitingText(tool, publicUrl, escalationId), seconds),
      async isUnchanged() {
        if (call.review === undefined) return (await call.refusal?.("now")) === undefined;
        reviewed.tool = await call.review("now");
        return reviewed.tool?.status === "active";
      },
    };
  }

  /**
   * Refuses a call whose tool is not in force: unknown, unusable, or waiting for a person to accept it. The refusal is a decision
   * on record. It changes no trust, since it is the server that decides what it lists.
   */
  async #refused(call: ToolCall, { tool }: Reviewed): Promise<ToolCallAnswer> {
    const waits = call.review === undefined ? await call.refusal?.("now") : undefined;
    const isWaiting = waits !== undefined;
    return this.#refusedFor(call, isWaiting ? { code: "TOOL_QUARANTINED", message: waits } : refusalReason(call, tool));
  }

  async #refusedFor(call: ToolCall, refusal: DecisionReason): Promise<ToolCallAnswer> {
    const sealed = await this.#held.intercept(
      { ...actionOf(call), marks: { refusal, keepsTrust: true } },
      call.arguments,
    );
    return { kind: "answer", result: refusedResult(call.tool, sealed, refusal.message), sealed };
  }

  async #outcomeOf(call: ToolCall, outcome: HeldOutcome, reviewed: Reviewed): Promise<ToolCallOutcome> {
    const { kind, sealed } = outcome;
    if (kind === "allowed") {
      const approved = outcome.isApproved ? this.#heldAction(call, reviewed) : undefined;
      const repeated = reviewed.tool?.repeated ?? [];
      return { kind: "forward", arguments: outcome.arguments, repeated, sealed, approved };
    }
    if (kind === "changed") return this.#refused(call, reviewed);
    return { kind: "answer", result: this.#resultOf(call, outcome), sealed };
  }

  #resultOf({ tool, publicUrl }: ToolCall, outcome: Exclude<HeldOutcome, { kind: "allowed" | "changed" }>): JsonObject {
    const { kind, sealed } = outcome;
    if (kind === "blocked") return blockedResult(tool, sealed);
    if (kind === "rejected") return rejectedResult(tool, decisionMeta(sealed), outcome.escalation);
    return pendingResult(tool, sealed, escalationPage(publicUrl, sealed), outcome.edited);
  }
}

/** Returns the action of a call, without a hold. */
function actionOf(call: DecidedCall): HeldAction {
  const {
    server,
    caller,
    sessionId,
    arguments: args,
    bytes,
    signal,
    unreadDigest,
    keepsTrust = false,
    trace,
    review,
  } = call;
  const { tool, wrapped } = recordedName(call);
  const name = `${server.name}.${tool}`;
  return {
    wire: "gateway",
    caller,
    arguments: args,
    // A read, a prompt or a completion is reported only where a budget or the workspace tracks it.
    marks: { keepsTrust, ...(review === undefined ? { reportsOutcome: false } : {}) },
    bytes,
    trace,
    signal,
    holdMs: 0,
    requestFor: (given) => {
      const asked = wrapped(given);
      return {
        actionType: name,
        tool: name,
        metadata: {
          arguments: asked,
          mcp_server: server.name,
          ...(unreadDigest === undefined ? {} : { [UNREAD]: unreadDigest }),
        },
        ...(sessionId === undefined ? {} : { sessionId }),
      };
    },
  };
}

/** Member of the metadata with the digest of what is forwarded and what rules cannot read. An approval holds for one digest. */
const UNREAD = "mcp_unread_digest";
const MAX_PRINTED = 256;

/**
 * Returns the name under which a call is recorded, and its arguments there. A name that no action can have, or that stands for a
 * method, is itself an argument. No tool of such a name is in force, so these calls are refused.
 */
function recordedName({ server, tool, review }: Pick<ToolCall, "server" | "tool" | "review">): {
  readonly tool: string;
  readonly wrapped: (args: JsonObject) => JsonObject;
} {
  const isMethod = review === undefined;
  const name = `${server.name}.${tool}`;
  const isNameable =
    tool !== "" &&
    tool === tool.trim() &&
    toolNameFault(name) === undefined &&
    nameFault(name) === undefined &&
    !reservedNameFault(tool);
  if (isMethod || isNameable) return { tool, wrapped: (args) => args };
  return { tool: UNNAMEABLE_CALL, wrapped: (args) => ({ name: printable(tool, MAX_PRINTED), arguments: args }) };
}

/** Says why a tool is not in force. */
function refusalReason({ server }: ToolCall, reviewed: ReviewedTool | undefined): DecisionReason {
  if (reviewed === undefined) {
    return { code: "TOOL_UNKNOWN", message: `server \`${server.name}\` lists no tool of this name` };
  }
  if (reviewed.status === "quarantined") {
    const message = "the tool is new or has changed, and waits for a person to accept it";
    return { code: "TOOL_QUARANTINED", message };
  }
  return { code: "TOOL_UNUSABLE", message: reviewed.reason ?? "its definition cannot be registered" };
}
