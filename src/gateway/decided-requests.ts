import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Counter, type Registry } from "prom-client";
import { type ControlPlaneError, ErrorReason } from "../errors.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { printable } from "../registry/mcp-changes.ts";
import type { StoreLog } from "../store/migrate.ts";
import { digestOf } from "../tree/canonical.ts";
import type { ApprovedCalls } from "./approved-calls.ts";
import type { CallDigest } from "./earlier-calls.ts";
import type { Generation } from "./endpoint.ts";
import { type Exchange, type Forwarding, inGeneration, type Unrouted } from "./exchange.ts";
import { disagreeingParameter, repeatedHeaders } from "./headers.ts";
import type { Incoming } from "./incoming.ts";
import type { KeptAnswer } from "./kept-results.ts";
import {
  createError,
  createResult,
  isRequest,
  RPC_CODES,
  type RpcId,
  type RpcRequest,
  type RpcResponse,
} from "./messages.ts";
import type { Answer } from "./reply.ts";
import type { McpEnds } from "./session-ends.ts";
import type { OpenCall } from "./sessions.ts";
import type { EscalationTasks } from "./tasks.ts";
import type { DecidedOutcome, ToolCallAnswer, ToolCalls } from "./tool-calls.ts";
import type { ToolLists } from "./tool-lists.ts";
import { DECISION_META, decisionMeta } from "./tool-results.ts";

/** Parts of `DecidedRequests`. */
export interface DecidedRequestsOptions {
  readonly calls: ToolCalls;
  readonly approved: Pick<ApprovedCalls, "forward">;
  readonly lists: ToolLists;
  readonly forwarding: Forwarding;
  readonly ends: Pick<McpEnds, "endOf">;
  readonly log: StoreLog;
  readonly metrics: Registry;
}

/** Serves the requests that are decided before the server sees them. */
export class DecidedRequests {
  readonly #options: DecidedRequestsOptions;
  readonly #outcomes: Counter;

  constructor(options: DecidedRequestsOptions) {
    this.#options = options;
    this.#outcomes = new Counter({
      name: "acp_mcp_calls_total",
      help: "Tool calls through the MCP gateway, by outcome.",
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
   * Decides a tool call, and forwards it once if it is allowed. Resolves with false if the server may answer later. `parameters`
   * are headers in which the client repeats arguments.
   */
  async callTool(
    exchange: Exchange,
    request: RpcRequest,
    call: OpenCall,
    { parameters, tasks }: Pick<Incoming, "parameters"> & { readonly tasks: EscalationTasks },
  ): Promise<boolean> {
    const { calls, approved, lists, forwarding, ends } = this.#options;
    const { server, caller, session, reply, bytes, ending, generation, headers, publicUrl } = exchange;
    const { id, params = {} } = request;
    const tool = ownValue(params, "name");
    const args = ownValue(params, "arguments") ?? {};
    if (typeof tool !== "string" || !isJsonObject(args)) {
      await reply.finish(createError(id, RPC_CODES.invalidParams, "`name` must be text and `arguments` an object"));
      return true;
    }
    if (exchange.endpoint.continues?.(request.method, params) === true) {
      const ended = await ends.endOf(caller);
      if (ended !== undefined) throw ended;
      return forwarding.forward(exchange, request, call);
    }
    const review = async () => (await lists.review(exchange, params)).get(tool);
    let known = lists.lastReviewed(server, tool);
    if (known === undefined && Object.keys(parameters).length > 0) known = await review();
    const header = disagreeingParameter(parameters, known?.repeated ?? [], args);
    if (header !== undefined) {
      const text = `the header \`${header}\` differs from the argument that it repeats`;
      await reply.finish(createError(id, RPC_CODES.headerMismatch, text), 400);
      return true;
    }
    const token = ownValue((ownValue(params, "_meta") ?? {}) as JsonObject, "progressToken");
    const outcome = await calls.decide({
      server,
      caller,
      sessionId: session?.id,
      tool,
      arguments: args,
      bytes,
      signal: ending.signal,
      known,
      review,
      publicUrl,
      digestOf: digestWith(params),
      isTask: tasks.isDeclared(exchange, request),
      onHeld: token === undefined ? undefined : (message, seconds) => progress(reply, token, message, seconds),
    });
    this.count(outcome);
    if (outcome.kind === "escalated") {
      const meta = { [DECISION_META]: decisionMeta(outcome.sealed) };
      await reply.finish(createResult(id, await tasks.create(exchange, outcome.sealed.escalationId ?? "", meta)));
      return true;
    }
    if (outcome.kind === "recalled") {
      await reply.finish(recalledResponse(id, generation, outcome.answer));
      if (!(await reply.delivered())) await outcome.putBack();
      return true;
    }
    if (outcome.kind === "answer") {
      this.#noteRefusal(exchange, tool, outcome);
      await reply.finish(createResult(id, inGeneration(generation, outcome.result)));
      return true;
    }
    const given = outcome.arguments === args ? parameters : undefined;
    const repeated = repeatedHeaders(given, outcome.repeated, outcome.arguments);
    const forwarded = { ...request, params: { ...params, arguments: outcome.arguments } };
    const sent = { ...exchange, headers: { ...headers, ...repeated } };
    if (outcome.approved === undefined) return forwarding.forward(sent, forwarded, call);
    const decided = { action: outcome.approved, decisionId: outcome.sealed.decisionId };
    return approved.forward(forwarding, sent, forwarded, call, decided);
  }

  /**
   * Refuses a message of a caller that has ended. A stateless tool call is refused on record, any other message without a record.
   */
  async refuseEnded(
    { caller, server, ending, reply, bytes }: Unrouted,
    ended: ControlPlaneError,
    { message, generation }: Incoming,
  ): Promise<void> {
    const params = isRequest(message) && message.method === "tools/call" ? (message.params ?? {}) : {};
    const [tool, args] = [ownValue(params, "name"), ownValue(params, "arguments") ?? {}];
    const isOnRecord = generation === "stateless" && ended.reason !== ErrorReason.AGENT_NOT_FOUND;
    if (!isOnRecord || !isRequest(message) || typeof tool !== "string" || !isJsonObject(args)) throw ended;
    const call = { server, caller, sessionId: undefined, tool, arguments: args, bytes, signal: ending.signal };
    const outcome = await this.#options.calls.refuse(call, ended);
    this.count(outcome);
    await reply.finish(createResult(message.id, inGeneration("stateless", outcome.result)));
  }

  /** Logs a refusal without a recorded decision: the tool is unknown, changed or unusable. */
  #noteRefusal({ server, caller }: Exchange, tool: string, { sealed, result }: ToolCallAnswer): void {
    if (sealed !== undefined) return;
    const { workspaceId, name } = server;
    const details = { workspaceId, server: name, agentId: caller.agentId, tool: printable(tool, 256), result };
    this.#options.log.warn(details, "mcp call refused");
  }
}

/** Creates the response that an earlier identical call got. The request is that of another client, of either generation. */
function recalledResponse(id: RpcId, generation: Generation, { result, error }: KeptAnswer): RpcResponse {
  if (error !== undefined) return { jsonrpc: "2.0", id, error };
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
