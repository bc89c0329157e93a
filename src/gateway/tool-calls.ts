import type { JsonObject } from "@bufbuild/protobuf";
import type { ReviewedTool } from "../registry/mcp-definitions.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { SealedDecision } from "../state/types.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { McpCaller } from "./caller.ts";
import type { HeldAction, HeldActions, HeldOutcome } from "./held-actions.ts";
import { blockedResult, escalationPage, pendingResult, refusal, rejectedResult } from "./tool-results.ts";

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

/** What becomes of a call. */
export type ToolCallOutcome =
  | {
      readonly kind: "forward";
      readonly arguments: JsonObject;
      readonly sealed: SealedDecision;
    }
  | { readonly kind: "answer"; readonly result: JsonObject; readonly sealed: SealedDecision | undefined };

/** Parts and settings of `ToolCalls`. */
export interface ToolCallsOptions {
  readonly held: HeldActions;
  /** Milliseconds for which a call waits for a person, without and with progress. */
  readonly holdMs: number;
  readonly progressHoldMs: number;
  /** Base URL of the dashboard's pages; undefined: none is known. */
  readonly publicUrl: string | undefined;
}

/** Decides the calls of tools, and holds those that wait for a person. */
export class ToolCalls {
  readonly #options: ToolCallsOptions;
  readonly #held: HeldActions;

  constructor(options: ToolCallsOptions) {
    this.#options = options;
    this.#held = options.held;
  }

  /** Decides a call. Resolves with its fate once a person has answered or the hold is over. Rejects when the signal aborts. */
  async decide(call: ToolCall): Promise<ToolCallOutcome> {
    const { known } = call;
    let tool = known?.status === "active" ? known : await call.review();
    const action = this.#actionOf(call, async () => {
      tool = await call.review();
      return tool?.status === "active";
    });
    for (;;) {
      const unfit = refusalOf(call, tool);
      if (unfit !== undefined) return unfit;
      // The listing costs a round trip, as the decision does: a tool that is as it was costs one of the two.
      const isFresh = tool !== known;
      const [sealed, now] = await Promise.all([
        this.#held.intercept(action, call.arguments),
        isFresh ? tool : call.review(),
      ]);
      if (now?.digest !== tool?.digest || now?.status !== tool?.status) {
        tool = now;
        continue;
      }
      const outcome = await this.#held.settle(action, sealed);
      if (outcome.kind === "allowed") return { ...outcome, kind: "forward" };
      // A tool that is no longer in force is refused at the top.
      if (outcome.kind !== "changed") return this.#answer(call, outcome);
    }
  }

  /** The action of a call, with how it is held. */
  #actionOf(call: ToolCall, isUnchanged: () => Promise<boolean>): HeldAction {
    const { server, caller, sessionId, tool, signal, onHeld } = call;
    const { holdMs, progressHoldMs } = this.#options;
    const name = `${server.name}.${tool}`;
    return {
      ...{ caller, arguments: call.arguments, signal, isUnchanged },
      holdMs: onHeld === undefined ? holdMs : progressHoldMs,
      onWaiting: (escalationId, seconds) =>
        onHeld?.(`waiting for a person to approve \`${tool}\` (escalation ${escalationId})`, seconds),
      requestFor: (args) => ({
        ...{ actionType: name, tool: name, actionContent: canonicalJson(args) },
        metadata: { arguments: args, mcp_server: server.name },
        ...(sessionId === undefined ? {} : { sessionId }),
      }),
    };
  }

  #answer(call: ToolCall, outcome: Exclude<HeldOutcome, { kind: "allowed" | "changed" }>): ToolCallOutcome {
    const { sealed } = outcome;
    if (outcome.kind === "blocked") return { kind: "answer", result: blockedResult(call.tool, sealed), sealed };
    if (outcome.kind === "rejected") {
      return { kind: "answer", result: rejectedResult(call.tool, sealed, outcome.escalation), sealed };
    }
    const page = escalationPage(this.#options.publicUrl, sealed);
    return { kind: "answer", result: pendingResult(call.tool, sealed, page), sealed };
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
