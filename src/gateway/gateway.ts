import type { IncomingMessage, ServerResponse } from "node:http";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { classifyInboundRequest } from "@modelcontextprotocol/server";
import { Counter, Gauge, type Registry } from "prom-client";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason, httpStatusFromReason } from "../errors.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { printable } from "../registry/mcp-changes.ts";
import type { ReviewedTool } from "../registry/mcp-definitions.ts";
import type { McpServer, McpServers } from "../registry/mcp-servers.ts";
import { HeldBytes } from "../server/held-bytes.ts";
import { sendJson } from "../server/http-reply.ts";
import { parseJson } from "../server/rest/json.ts";
import { readJsonBody } from "../server/rest/request.ts";
import type { McpCallers } from "./caller.ts";
import { type Exchange, Forwarding, type ForwardingOptions, inGeneration, noteFault, stackOf } from "./exchange.ts";
import {
  disagreeingParameter,
  disagreement,
  headerOf,
  parameterHeaders,
  passedHeaders,
  repeatedHeaders,
  standardHeaders,
} from "./headers.ts";
import {
  createError,
  createResult,
  errorFromFault,
  isRequest,
  isResponse,
  RPC_CODES,
  type RpcId,
  type RpcMessage,
  type RpcRequest,
  rpcMessageFrom,
} from "./messages.ts";
import type { RequestOrigins } from "./origin.ts";
import type { ProtectedResource } from "./protected-resource.ts";
import { type Answer, Reply } from "./reply.ts";
import type { McpEnds } from "./session-ends.ts";
import { OpenCall, type Session, Sessions, type SessionsOptions } from "./sessions.ts";
import { EscalationTasks } from "./tasks.ts";
import { type DecidedOutcome, type ToolCallAnswer, ToolCalls, type ToolCallsOptions } from "./tool-calls.ts";
import { ToolLists, type ToolListsOptions } from "./tool-lists.ts";
import { DECISION_META, decisionMeta } from "./tool-results.ts";
import type { Upstreams } from "./upstreams.ts";

/** Parts and settings of the gateway. */
export interface GatewayOptions extends ToolCallsOptions, ToolListsOptions, ForwardingOptions, SessionsOptions {
  readonly servers: Pick<McpServers, "find">;
  readonly callers: Pick<McpCallers, "identify">;
  readonly ends: Pick<McpEnds, "watch" | "endOf">;
  readonly origins: Pick<RequestOrigins, "assertAllowed">;
  readonly resource: Pick<ProtectedResource, "resourceOf" | "challenge">;
  readonly upstreams: Upstreams;
  readonly logs: ToolListsOptions["logs"];
  readonly metrics: Registry;
  /** Maximum bytes of a message of a client. */
  readonly maxBodyBytes: number;
}

/** A client's request before its generation is known. */
interface Given extends Pick<Exchange, "caller" | "server" | "ending" | "bytes"> {
  readonly reply: Reply;
}

/** Headers in which a client repeats arguments of a call. */
type Parameters = Readonly<Record<string, string>>;

const PREFIX = "/mcp";
const MAX_DEPTH = 64;
const SESSION_HEADER = "mcp-session-id";
const CLIENT_LEFT = "the client disconnected";

/** Serves `/mcp/{name}`: a reverse proxy in front of MCP servers that decides every tool call. */
export class McpGateway {
  readonly prefix = PREFIX;
  readonly #options: GatewayOptions;
  readonly #sessions: Sessions;
  readonly #calls: ToolCalls;
  readonly #closing = new AbortController();
  readonly #exchanges = new Set<AbortController>();
  readonly #forwarding: Forwarding;
  readonly #lists: ToolLists;
  readonly #tasks: EscalationTasks;
  /** Bytes of clients' messages that are read, held or forwarded. */
  readonly #held = new HeldBytes();
  readonly #outcomes: Counter;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#sessions = new Sessions(options);
    this.#calls = new ToolCalls(options);
    this.#forwarding = new Forwarding(options);
    this.#lists = new ToolLists(options);
    this.#tasks = new EscalationTasks({
      calls: this.#calls,
      lists: this.#lists,
      forwarding: this.#forwarding,
      ends: options.ends,
      log: options.log,
      maxResultBytes: options.maxResultBytes,
      onOutcome: (outcome) => this.#count(outcome),
    });
    const registers = [options.metrics];
    this.#outcomes = new Counter({
      name: "acp_mcp_calls_total",
      help: "Tool calls through the MCP gateway, by outcome.",
      labelNames: ["outcome"],
      registers,
    });
    const sessions = this.#sessions;
    new Gauge({
      name: "acp_mcp_sessions",
      help: "Open MCP sessions of this process.",
      registers,
      collect() {
        this.set(sessions.size);
      },
    });
  }

  /** Serves a request. MUST NOT reject. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const name = serverNameFrom(request.url);
    if (name === undefined) return false;
    try {
      await this.#serve(request, response, name);
    } catch (error) {
      this.#refuse(request, response, name, error);
    }
    return true;
  }

  /** Ends everything in flight. */
  async close(): Promise<void> {
    const reason = new ControlPlaneError(ErrorReason.SHUTTING_DOWN, "the service is stopping");
    this.#closing.abort(reason);
    for (const exchange of this.#exchanges) exchange.abort(reason);
    this.#tasks.close(reason);
    await this.#sessions.closeAll(reason);
    await this.#options.upstreams.close();
  }

  /** Connects to a server on behalf of a person, lists its tools and pins them. Rejects with MCP_UPSTREAM_UNAVAILABLE. */
  async refresh(server: McpServer, by: string, signal: AbortSignal): Promise<Iterable<ReviewedTool>> {
    const { upstreams, definitions } = this.#options;
    const tools = await upstreams.listOnce(server, signal);
    return (await definitions.review(server, tools, by)).values();
  }

  async #serve(request: IncomingMessage, response: ServerResponse, name: string): Promise<void> {
    const { origins, callers, ends, resource, servers } = this.#options;
    origins.assertAllowed(request);
    this.#closing.signal.throwIfAborted();
    const at = resource.resourceOf(request, `${PREFIX}/${name}`);
    const caller = await callers.identify(request, at);
    const server = await servers.find(caller.workspaceId, name);
    if (server === undefined) {
      throw new ControlPlaneError(ErrorReason.MCP_SERVER_NOT_FOUND, `no MCP server \`${name}\``, { server: name });
    }
    const ending = new AbortController();
    this.#exchanges.add(ending);
    response.once("close", () => {
      this.#exchanges.delete(ending);
      if (!response.writableFinished) ending.abort(new ControlPlaneError(ErrorReason.CANCELLED, CLIENT_LEFT));
    });
    const unwatch = await ends.watch(caller, (reason) => ending.abort(reason));
    try {
      // Identified again: the watch does not report an end before it began.
      const { isEnded } = await callers.identify(request, at);
      const now = { ...caller, isEnded };
      await this.#method(request, { caller: now, server, reply: new Reply(response), bytes: 0, ending });
    } finally {
      unwatch();
    }
  }

  async #method(request: IncomingMessage, given: Given): Promise<void> {
    const { reply, caller } = given;
    if (request.method === "POST") return this.#post(request, given);
    const ended = await this.#options.ends.endOf(caller);
    if (ended !== undefined) throw ended;
    if (request.method === "GET") return this.#stream(request, given);
    if (request.method === "DELETE") return this.#end(request, given);
    reply.setHeader("allow", "POST, GET, DELETE");
    reply.json(405, errorBody(RPC_CODES.server, "use POST, GET or DELETE"));
  }

  /** Serves one message of a client. */
  #post(request: IncomingMessage, given: Given): Promise<void> {
    return this.#held.during(async (hold) => {
      const body = await readJsonBody(request, this.#options.maxBodyBytes, hold);
      const sized = { ...given, bytes: body.length };
      const { caller, ending, bytes } = sized;
      const { workspaceId } = caller;
      await this.#options.largeRequests.giveWay({ workspaceId, bytes, signal: ending.signal });
      await this.#receive(request, sized, parseJson(body, MAX_DEPTH).value);
    });
  }

  async #receive(request: IncomingMessage, given: Given, value: unknown): Promise<void> {
    const { reply, server, caller } = given;
    if (Array.isArray(value)) {
      return reply.json(
        400,
        errorBody(RPC_CODES.invalidRequest, "batches are not supported; send one message per request"),
      );
    }
    const message = rpcMessageFrom(value);
    if (message === undefined) {
      return reply.json(400, errorBody(RPC_CODES.invalidRequest, "the body is not a JSON-RPC 2.0 message"));
    }
    const outcome = classifyInboundRequest({ httpMethod: "POST", ...standardHeaders(request), body: value });
    if (outcome.kind === "reject") {
      const { httpStatus, code, message: text, data } = outcome;
      const id = isRequest(message) ? message.id : null;
      return reply.json(httpStatus, {
        jsonrpc: "2.0",
        id,
        error: { code, message: text, ...(data === undefined ? {} : { data }) },
      });
    }
    const disagreeing = disagreement(request, message);
    if (disagreeing !== undefined) {
      const id = isRequest(message) ? message.id : null;
      return reply.json(400, { jsonrpc: "2.0", id, error: { code: RPC_CODES.headerMismatch, message: disagreeing } });
    }
    const headers = passedHeaders(request);
    const parameters = parameterHeaders(request);
    try {
      const isModern = outcome.kind === "modern";
      // The decision on a tool call checks the agent itself.
      const isDecided = isRequest(message) && message.method === "tools/call" && !caller.isEnded;
      const ended = isDecided ? undefined : await this.#options.ends.endOf(caller);
      if (ended !== undefined) return await this.#refuseEnded(given, ended, isModern, message);
      if (isModern) {
        const { params } = isResponse(message) ? { params: undefined } : message;
        const endpoint = await this.#options.upstreams.stateless(server, caller.agentId, params);
        const exchange = { ...given, generation: "stateless" as const, endpoint, headers, session: undefined };
        return await this.#exchange(exchange, message, parameters);
      }
      if (isRequest(message) && message.method === "initialize") return await this.#initialize(given, headers, message);
      const session = this.#sessions.get(headerOf(request, SESSION_HEADER), caller, server);
      await this.#exchange({ ...given, ...inSession(session, headers) }, message, parameters);
    } catch (error) {
      if (!isRequest(message) || httpStatusOf(error) === 404 || httpStatusOf(error) === 401) throw error;
      noteFault(this.#options.log, server, error);
      await reply.finish(errorFromFault(message.id, error));
    }
  }

  /**
   * Refuses a message of a caller that has ended. A stateless tool call is refused on record, any other message without a record.
   */
  async #refuseEnded(
    { caller, server, ending, reply, bytes }: Given,
    ended: ControlPlaneError,
    isModern: boolean,
    message: RpcMessage,
  ): Promise<void> {
    const params = isRequest(message) && message.method === "tools/call" ? (message.params ?? {}) : {};
    const [tool, args] = [ownValue(params, "name"), ownValue(params, "arguments") ?? {}];
    const isOfAgent = ended.reason !== ErrorReason.AGENT_NOT_FOUND;
    if (!isModern || !isOfAgent || !isRequest(message) || typeof tool !== "string" || !isJsonObject(args)) throw ended;
    const call = { server, caller, sessionId: undefined, tool, arguments: args, bytes, signal: ending.signal };
    const outcome = await this.#calls.refuse(call, ended);
    this.#count(outcome);
    await reply.finish(createResult(message.id, inGeneration("stateless", outcome.result)));
  }

  /** Opens a session. */
  async #initialize(given: Given, headers: Readonly<Record<string, string>>, message: RpcRequest): Promise<void> {
    const { caller, server, reply } = given;
    const endpoint = await this.#options.upstreams.stateful(server, message.params);
    const session = await this.#sessions.open(caller, server, endpoint).catch(async (error: unknown) => {
      await endpoint.close();
      throw error;
    });
    const fail = (reason: unknown) => this.#sessions.close(session, reason);
    const unwatch = await this.#options.ends.watch(caller, (reason) => void fail(reason), session.id);
    session.onClosed = unwatch;
    const call = new OpenCall(message, given.ending, async (response) => {
      if (response.error !== undefined) void fail(new Error("the server refused the session"));
      return response;
    });
    call.isForwarded = true;
    try {
      const exchange = { ...given, ...inSession(session, headers) };
      await this.#forwarding.giveWay(exchange);
      const open = async (): Promise<Response> => {
        const answer = await this.#forwarding.send(exchange, message);
        session.upstreamId = answer.headers.get(SESSION_HEADER) ?? undefined;
        reply.setHeader(SESSION_HEADER, session.id);
        return answer;
      };
      const end = await this.#forwarding.relay(exchange, open, call);
      if (end !== "answered") await fail(new Error("the server did not open a session"));
    } catch (error) {
      await fail(error);
      throw error;
    }
  }

  /** Passes a message on, or decides it. `parameters` are headers in which the client repeats arguments. */
  async #exchange(exchange: Exchange, message: RpcMessage, parameters: Parameters): Promise<void> {
    if (isRequest(message)) return this.#request(exchange, message, parameters);
    if (!isResponse(message) && message.method === "notifications/cancelled") this.#cancel(exchange, message.params);
    await this.#forwarding.giveWay(exchange);
    await this.#forwarding.relay(exchange, () => this.#forwarding.send(exchange, message), undefined);
  }

  async #request(exchange: Exchange, request: RpcRequest, parameters: Parameters): Promise<void> {
    const { session, reply, ending } = exchange;
    if (session?.open.has(request.id)) {
      const text = "a request with this id is in flight in the session";
      return reply.finish(createError(request.id, RPC_CODES.invalidRequest, text));
    }
    if (this.#tasks.isOwn(exchange, request)) return this.#answerTask(exchange, request);
    const call = new OpenCall(request, ending, this.#changeOf(exchange, request));
    session?.open.set(request.id, call);
    let isKept = false;
    try {
      if (request.method === "tools/call") isKept = !(await this.#callTool(exchange, request, call, parameters));
      else isKept = !(await this.#forward(exchange, request, call));
    } finally {
      // A call whose response broke off may be answered when the client resumes its stream.
      if (!isKept) session?.open.delete(request.id);
    }
  }

  /** Returns the change to the response of a request; undefined if the response is passed on unchanged. */
  #changeOf(exchange: Exchange, request: RpcRequest): OpenCall["transform"] | undefined {
    if (request.method === "tools/list") return this.#lists.filter(exchange, request);
    const isDiscovery = exchange.generation === "stateless" && request.method === "server/discover";
    return isDiscovery ? (response) => this.#tasks.declare(response) : undefined;
  }

  async #answerTask(exchange: Exchange, request: RpcRequest): Promise<void> {
    const response = await this.#tasks.answer(exchange, request);
    await exchange.reply.finish(response, response.error?.code === RPC_CODES.missingCapability ? 400 : 200);
  }

  /** Sends a request to the server and passes the response on. Resolves with false if the server may answer later. */
  async #forward(exchange: Exchange, request: RpcRequest, call: OpenCall): Promise<boolean> {
    await this.#forwarding.giveWay(exchange);
    exchange.ending.signal.throwIfAborted();
    call.isForwarded = true;
    const end = await this.#forwarding.relay(exchange, () => this.#forwarding.send(exchange, request), call);
    return end === "answered";
  }

  /** Decides a tool call, and forwards it once if it is allowed. Resolves with false if the server may answer later. */
  async #callTool(exchange: Exchange, request: RpcRequest, call: OpenCall, parameters: Parameters): Promise<boolean> {
    const { server, caller, session, reply, bytes, ending, generation, headers } = exchange;
    const { id, params = {} } = request;
    const tool = ownValue(params, "name");
    const args = ownValue(params, "arguments") ?? {};
    if (typeof tool !== "string" || !isJsonObject(args)) {
      await reply.finish(createError(id, RPC_CODES.invalidParams, "`name` must be text and `arguments` an object"));
      return true;
    }
    if (exchange.endpoint.continues?.(request.method, params) === true) {
      const ended = await this.#options.ends.endOf(caller);
      if (ended !== undefined) throw ended;
      return this.#forward(exchange, request, call);
    }
    const review = async () => (await this.#lists.review(exchange, params)).get(tool);
    let known = this.#lists.lastReviewed(server, tool);
    if (known === undefined && Object.keys(parameters).length > 0) known = await review();
    const header = disagreeingParameter(parameters, known?.repeated ?? [], args);
    if (header !== undefined) {
      const text = `the header \`${header}\` differs from the argument that it repeats`;
      await reply.finish(createError(id, RPC_CODES.headerMismatch, text), 400);
      return true;
    }
    const token = ownValue((ownValue(params, "_meta") ?? {}) as JsonObject, "progressToken");
    const outcome = await this.#calls.decide({
      server,
      caller,
      sessionId: session?.id,
      tool,
      arguments: args,
      bytes,
      signal: ending.signal,
      known,
      review,
      isTask: this.#tasks.isDeclared(exchange, request),
      onHeld: token === undefined ? undefined : (message, seconds) => progress(reply, token, message, seconds),
    });
    this.#count(outcome);
    if (outcome.kind === "escalated") {
      const meta = { [DECISION_META]: decisionMeta(outcome.sealed) };
      await reply.finish(createResult(id, await this.#tasks.create(exchange, outcome.sealed.escalationId ?? "", meta)));
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
    return this.#forward({ ...exchange, headers: { ...headers, ...repeated } }, forwarded, call);
  }

  /** Logs a refusal without a recorded decision: the tool is unknown, changed or unusable. */
  #noteRefusal({ server, caller }: Exchange, tool: string, { sealed, result }: ToolCallAnswer): void {
    if (sealed !== undefined) return;
    const { workspaceId, name } = server;
    const details = { workspaceId, server: name, agentId: caller.agentId, tool: printable(tool, 256), result };
    this.#options.log.warn(details, "mcp call refused");
  }

  #count(outcome: DecidedOutcome): void {
    const decision = outcome.sealed?.decision ?? "refused";
    this.#outcomes.inc({ outcome: outcome.kind === "forward" ? "forwarded" : decision });
  }

  /** Applies a client's cancellation to the call in flight. */
  #cancel({ session }: Exchange, params: JsonObject = {}): void {
    const call = session?.open.get(ownValue(params, "requestId") as RpcId);
    // A forwarded call is cancelled by its server, which also gets the notification.
    if (call === undefined || call.isForwarded) return;
    call.ending.abort(new ControlPlaneError(ErrorReason.CANCELLED, "the client cancelled the call"));
  }

  /** Serves the stream of a server's own messages. */
  async #stream(request: IncomingMessage, given: Given): Promise<void> {
    const { caller, server, reply, ending } = given;
    const session = this.#sessions.get(headerOf(request, SESSION_HEADER), caller, server);
    const exchange = { ...given, ...inSession(session, passedHeaders(request)) };
    session.streams.add(ending);
    try {
      const { headers } = exchange;
      const open = () => session.endpoint.fetch({ method: "GET", headers, signal: ending.signal });
      await this.#forwarding.relay(exchange, open, undefined);
      reply.end();
    } finally {
      session.streams.delete(ending);
      session.usedAt = performance.now();
    }
  }

  /** Ends a session. */
  async #end(request: IncomingMessage, given: Given): Promise<void> {
    const { caller, server, reply, ending } = given;
    const session = this.#sessions.get(headerOf(request, SESSION_HEADER), caller, server);
    const { headers } = inSession(session, passedHeaders(request));
    try {
      const answer = await session.endpoint.fetch({ method: "DELETE", headers, signal: ending.signal });
      await answer.body?.cancel();
    } finally {
      await this.#sessions.close(session, new Error("the client ended the session"));
    }
    reply.text(200, undefined, "");
  }

  /** Answers a request that failed before its exchange. */
  #refuse(request: IncomingMessage, response: ServerResponse, name: string, thrown: unknown): void {
    const error = controlPlaneErrorFrom(thrown);
    if (!(thrown instanceof ControlPlaneError))
      this.#options.log.error({ server: name, cause: stackOf(thrown) }, "mcp request failed");
    if (response.headersSent || response.destroyed) return void response.destroy();
    const status = httpStatusFromReason(error.reason);
    const challenge = this.#options.resource.challenge(request, `${PREFIX}/${name}`, error);
    const { message, metadata, reason } = error;
    const code = status === 400 ? RPC_CODES.invalidRequest : RPC_CODES.server;
    const body = errorBody(code, message, { reason: ErrorReason[reason] ?? "INTERNAL", metadata: { ...metadata } });
    sendJson(response, status, JSON.stringify(body), challenge);
  }
}

const httpStatusOf = (error: unknown): number => httpStatusFromReason(controlPlaneErrorFrom(error).reason);

/** Creates an error without the id of a request. */
function errorBody(code: number, message: string, data?: JsonObject): object {
  return { jsonrpc: "2.0", id: null, error: { code, message, ...(data === undefined ? {} : { data }) } };
}

/** Returns the name of the server in a path `/mcp/{name}`. */
function serverNameFrom(url = "/"): string | undefined {
  const [path = ""] = url.split("?");
  const [, name, rest] = /^\/mcp\/([A-Za-z0-9-]{1,63})(\/?)$/.exec(path) ?? [];
  return rest === "/" ? undefined : name?.toLowerCase();
}

function inSession(session: Session, headers: Readonly<Record<string, string>>) {
  const { upstreamId, endpoint } = session;
  return {
    generation: "stateful" as const,
    session,
    endpoint,
    headers: upstreamId === undefined ? headers : { ...headers, [SESSION_HEADER]: upstreamId },
  };
}

async function progress(reply: Answer, token: JsonValue, message: string, seconds: number): Promise<void> {
  reply.beginStream();
  const params = { progressToken: token, progress: seconds, message };
  await reply.message({ jsonrpc: "2.0", method: "notifications/progress", params });
}
