import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Counter, type Registry } from "prom-client";
import { type ControlPlaneError, ErrorReason } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ownValue } from "../policy/json-value.ts";
import { registerMethodTools } from "../registry/mcp-method-tools.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { SealedDecision } from "../state/types.ts";
import { digestOf } from "../tree/canonical.ts";
import type { ApprovedCalls } from "./approved-calls.ts";
import { NOT_SENT } from "./call-end.ts";
import type { McpCaller } from "./caller.ts";
import { type Subject, subjectOf, subscribedResources, withArguments, withName } from "./decided-methods.ts";
import type { DefinitionLists } from "./definition-lists.ts";
import type { CallDigest } from "./earlier-calls.ts";
import type { Generation } from "./endpoint.ts";
import { type Exchange, type Forwarding, inGeneration, LISTEN, type Unrouted } from "./exchange.ts";
import { boundDigest } from "./forwarded-members.ts";
import { disagreeingParameter, repeatedHeaders } from "./headers.ts";
import type { Incoming } from "./incoming.ts";
import type { KeptAnswer } from "./kept-results.ts";
import { nameTool } from "./message-span.ts";
import {
  createError,
  createResult,
  isRequest,
  RPC_CODES,
  type RpcId,
  type RpcRequest,
  type RpcResponse,
} from "./messages.ts";
import type { Method } from "./methods.ts";
import { isObserved, type ObservedResults, sessionIdOf } from "./observed-results.ts";
import type { OutcomeReports } from "./outcome-reports.ts";
import type { Answer } from "./reply.ts";
import type { McpEnds } from "./session-ends.ts";
import type { OpenCall } from "./sessions.ts";
import type { EscalationTasks } from "./tasks.ts";
import type { DecidedOutcome, ToolCall, ToolCallAnswer, ToolCalls } from "./tool-calls.ts";
import { DECISION_META, decisionMeta, errorFromRefusal } from "./tool-results.ts";

/** Parts of `DecidedRequests`. */
export interface DecidedRequestsOptions {
  readonly calls: ToolCalls;
  readonly approved: Pick<ApprovedCalls, "forward">;
  readonly outcomes: Pick<OutcomeReports, "outcomeOf">;
  readonly lists: DefinitionLists;
  readonly forwarding: Forwarding;
  readonly ends: Pick<McpEnds, "endOf">;
  readonly observed: Pick<ObservedResults, "assertOwn" | "stepOf">;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly metrics: Registry;
}

/** Serves the requests that are decided before the server sees them. */
export class DecidedRequests {
  readonly #options: DecidedRequestsOptions;
  readonly #outcomes: Counter;
  /** Methods that are registered as tools, by server. */
  readonly #registered = new WeakMap<McpServer, Map<string, Promise<void>>>();

  constructor(options: DecidedRequestsOptions) {
    this.#options = options;
    this.#outcomes = new Counter({
      name: "acp_mcp_calls_total",
      help: "Decided requests through the MCP gateway, by outcome.",
      labelNames: ["outcome"],
      registers: [options.metrics],
    });
  }

  /** Counts the outcome of a call. */
  count(outcome: DecidedOutcome): void {
    const { kind, sealed } = outcome;
    const word = kind === "forward" ? "forwarded" : kind === "recalled" ? "recalled" : (sealed?.decision ?? "refused");
    this.#outcomes.inc({ outcome: word });
  }

  /**
   * Decides a request, and forwards it once if it is allowed. Resolves with false if the server may answer later. `parameters`
   * are headers in which the client repeats arguments.
   */
  async serve(
    exchange: Exchange,
    request: RpcRequest,
    call: OpenCall,
    {
      parameters,
      tasks,
      method,
    }: Pick<Incoming, "parameters"> & { readonly tasks: EscalationTasks; readonly method: Method },
  ): Promise<boolean> {
    if (request.method === LISTEN) return this.#listen(exchange, request, call);
    const { approved, lists, forwarding, ends, observed } = this.#options;
    const { caller, reply, generation, headers } = exchange;
    const { id, params = {} } = request;
    const subject = subjectOf(request);
    if (typeof subject === "string") {
      await reply.finish(createError(id, RPC_CODES.invalidParams, subject));
      return true;
    }
    // As it would be forwarded: a client may leave empty arguments out.
    const continued = withArguments(request, subject, subject.arguments);
    if (exchange.endpoint.continues?.(request.method, continued.params ?? {}) === true) {
      const ended = await ends.endOf(caller);
      if (ended !== undefined) throw ended;
      await observed.assertOwn(exchange);
      const waiting = forwarding.takeWaiting(exchange, continued);
      call.outcome = waiting?.outcome;
      // Its decision is the one of the first round, which the server keeps, whose session observes every round.
      const first = { ...exchange, namedSession: waiting?.namedSession ?? exchange.namedSession };
      const sessions = new Set([first.namedSession, exchange.namedSession]);
      const steps = [...sessions].map((namedSession) =>
        observed.stepOf({ ...exchange, namedSession }, call, undefined),
      );
      call.observe = async (response) => {
        let given = response;
        for (const step of steps) given = (await step?.(given)) ?? given;
        return given;
      };
      return forwarding.forward(first, continued, call);
    }
    const { tool, isTool, arguments: args } = subject;
    const review: ToolCall["review"] = isTool ? (age) => lists.tool(exchange, params, tool, age) : undefined;
    let known = isTool ? lists.lastReviewed(exchange, params, tool) : undefined;
    if (review !== undefined && known === undefined && Object.keys(parameters).length > 0) known = await review();
    const header = disagreeingParameter(parameters, known?.repeated ?? [], args);
    if (header !== undefined) {
      const text = `the header \`${header}\` differs from the argument that it repeats`;
      await reply.finish(createError(id, RPC_CODES.headerMismatch, text), 400);
      return true;
    }
    const digest = digestWith(params);
    const refusal: ToolCall["refusal"] = (age) => lists.refusalOf(exchange, request, params, age);
    const outcome = await this.#decide(exchange, request, subject, { known, review, refusal, tasks, digestOf: digest });
    if (outcome.kind === "escalated") {
      const meta = { [DECISION_META]: decisionMeta(outcome.sealed) };
      await reply.finish(createResult(id, await tasks.create(exchange, outcome.sealed.escalationId ?? "", meta)));
      return true;
    }
    if (outcome.kind === "recalled") {
      const recalled = recalledResponse(id, subject, generation, outcome.answer);
      const scrubbed = await forwarding.scrubKept(exchange, request.method, recalled);
      const observe = observed.stepOf(exchange, call, outcome.decisionId);
      await reply.finish((await observe?.(scrubbed)) ?? scrubbed);
      if (!(await reply.delivered())) await outcome.putBack();
      return true;
    }
    if (outcome.kind === "answer") {
      await reply.finish(answerFrom(id, subject, outcome, generation));
      return true;
    }
    return this.#reported(caller, [outcome.sealed], call, async () => {
      const decided = withArguments(request, subject, outcome.arguments);
      const fault = outcome.arguments === args ? undefined : subjectOf(decided);
      if (typeof fault === "string") {
        const text = `the arguments that a person approved in place of those of the request do not fit: ${fault}`;
        await reply.finish(createError(id, RPC_CODES.invalidParams, text));
        return true;
      }
      const given = outcome.arguments === args ? parameters : undefined;
      const repeated = repeatedHeaders(given, outcome.repeated, outcome.arguments);
      const own = { ...withName(headers, decided), ...repeated };
      const sent = { ...exchange, headers: own };
      const { decisionId } = outcome.sealed;
      if (isObserved(request.method, method)) call.observe = observed.stepOf(exchange, call, decisionId);
      if (outcome.approved === undefined) return forwarding.forward(sent, decided, call);
      return approved.forward(forwarding, sent, decided, call, { action: outcome.approved, decisionId });
    });
  }

  /** Forwards an allowed call, whose response reports its outcome. Reports here that a call was not sent. */
  async #reported(
    caller: McpCaller,
    decisions: readonly SealedDecision[],
    call: OpenCall,
    forward: () => Promise<boolean>,
  ): Promise<boolean> {
    call.outcome = this.#options.outcomes.outcomeOf(caller, decisions);
    try {
      return await forward();
    } finally {
      if (!call.isForwarded) call.outcome?.end(NOT_SENT);
    }
  }

  /** Decides each resource of a subscription. Forwards the subscription if all are allowed. */
  async #listen(exchange: Exchange, request: RpcRequest, call: OpenCall): Promise<boolean> {
    const { id } = request;
    const resources = subscribedResources(request);
    if (typeof resources === "string") {
      await exchange.reply.finish(createError(id, RPC_CODES.invalidParams, resources));
      return true;
    }
    const outcomes = await Promise.all(
      resources.map(async (resource) => {
        const subject = subjectOf(resource) as Subject;
        const one = { ...request, ...resource };
        // The response to an earlier request for one resource answers no subscription.
        const refusal: ToolCall["refusal"] = (age) =>
          this.#options.lists.refusalOf(exchange, resource, request.params ?? {}, age);
        const digest: ToolCall["digestOf"] = (own) => `${LISTEN} ${own}`;
        const outcome = await this.#decide(exchange, one, subject, { refusal, digestOf: digest });
        return { subject, outcome };
      }),
    );
    const allowed = outcomes.flatMap(({ outcome }) => (outcome.kind === "forward" ? [outcome.sealed] : []));
    return this.#reported(exchange.caller, allowed, call, async () => {
      for (const { subject, outcome } of outcomes) {
        if (outcome.kind === "answer") {
          await exchange.reply.finish(answerFrom(id, subject, outcome, exchange.generation));
          return true;
        }
        if (outcome.kind !== "forward" || outcome.arguments !== subject.arguments) {
          const text = "a person approved other resources in place of those of the request; ask for these";
          await exchange.reply.finish(createError(id, RPC_CODES.invalidParams, text));
          return true;
        }
      }
      return this.#options.forwarding.forward(exchange, request, call);
    });
  }

  async #decide(
    exchange: Exchange,
    request: RpcRequest,
    subject: Subject,
    {
      known,
      review,
      refusal,
      tasks,
      digestOf: digest,
    }: Partial<Pick<ToolCall, "known" | "review" | "refusal">> &
      Pick<ToolCall, "digestOf"> & { readonly tasks?: EscalationTasks },
  ): Promise<DecidedOutcome> {
    const { server, caller, reply, bytes, ending, publicUrl, trace } = exchange;
    const { params = {} } = request;
    const { tool, isTool, arguments: args, keepsTrust } = subject;
    if (!isTool) await this.#register(exchange, tool);
    const unreadDigest = boundDigest(params, subject.members);
    const token = ownValue((ownValue(params, "_meta") ?? {}) as JsonObject, "progressToken");
    const outcome = await this.#options.calls.decide({
      server,
      caller,
      sessionId: sessionIdOf(exchange),
      tool,
      arguments: args,
      unreadDigest,
      keepsTrust,
      bytes,
      trace,
      signal: ending.signal,
      known,
      review,
      refusal,
      publicUrl,
      digestOf: digest,
      // A task is made anew from tool and arguments alone.
      isTask: isTool && unreadDigest === undefined && tasks?.isDeclared(exchange, request) === true,
      onHeld: token === undefined ? undefined : (message, seconds) => progress(reply, token, message, seconds),
    });
    this.count(outcome);
    const isInForce = isTool && this.#options.lists.lastReviewed(exchange, params, tool)?.status === "active";
    if (exchange.span !== undefined && isInForce) nameTool(exchange.span, tool);
    return outcome;
  }

  /** Registers a method of a server as a tool before its first decision. */
  async #register({ server, caller }: Exchange, method: string): Promise<void> {
    const registered = this.#registered.get(server) ?? new Map<string, Promise<void>>();
    this.#registered.set(server, registered);
    const register = async (): Promise<void> =>
      registerMethodTools(await this.#options.logs.of(caller.workspaceId), server, caller.keyId, [method]);
    const registering = registered.get(method) ?? register();
    registered.set(method, registering);
    await registering.catch((error: unknown) => {
      registered.delete(method);
      throw error;
    });
  }

  /**
   * Refuses a message of a caller that has ended: a tool call on record, any other message without a record. Rejects with
   * `ended`, or resolves with the refusal.
   */
  async refuseEnded(
    { caller, server, ending, bytes, trace }: Unrouted,
    ended: ControlPlaneError,
    { message }: Incoming,
  ): Promise<RpcResponse> {
    const subject = isRequest(message) && message.method === "tools/call" ? subjectOf(message) : "is no call";
    if (ended.reason === ErrorReason.AGENT_NOT_FOUND || !isRequest(message) || typeof subject === "string") throw ended;
    const { tool, arguments: args } = subject;
    const { signal } = ending;
    const call = { server, caller, sessionId: undefined, tool, arguments: args, bytes, trace, signal };
    const outcome = await this.#options.calls.refuse({ ...call, review: async () => undefined }, ended);
    this.count(outcome);
    return errorFromRefusal(message.id, outcome.result);
  }
}

/** Creates the response to a request that is not forwarded. */
function answerFrom(id: RpcId, { isTool }: Subject, { result }: ToolCallAnswer, generation: Generation): RpcResponse {
  return isTool ? createResult(id, inGeneration(generation, result)) : errorFromRefusal(id, result);
}

/** Creates the response that an earlier identical call got. The request is that of another client, of either generation. */
function recalledResponse(
  id: RpcId,
  { isTool }: Subject,
  generation: Generation,
  { result, error }: KeptAnswer,
): RpcResponse {
  if (error !== undefined) return { jsonrpc: "2.0", id, error };
  // The gateway's own result, which says that the response is lost.
  if (!isTool && result?.isError === true) return errorFromRefusal(id, result);
  return createResult(id, inGeneration(generation, result ?? {}));
}

/** Binds the digest of a call to the parameters beside the ones that are decided: another `requestState` is another call. */
function digestWith({ name: _, arguments: __, _meta: ___, ...further }: JsonObject): CallDigest {
  if (Object.keys(further).length === 0) return (digest) => digest;
  return (digest) => digestOf({ digest, further });
}

async function progress(reply: Answer, token: JsonValue, message: string, seconds: number): Promise<void> {
  reply.beginStream();
  const params = { progressToken: token, progress: seconds, message };
  await reply.message({ jsonrpc: "2.0", method: "notifications/progress", params });
}
