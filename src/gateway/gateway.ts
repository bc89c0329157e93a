import type { IncomingMessage, ServerResponse } from "node:http";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { classifyInboundRequest } from "@modelcontextprotocol/server";
import { Counter, Gauge, type Registry } from "prom-client";
import { alwaysBlockedFor } from "../decision/always-blocked.ts";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason, httpStatusFromReason } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { normaliseName } from "../policy/names.ts";
import type { McpDefinitions, McpTool, ReviewedTool } from "../registry/mcp-definitions.ts";
import type { McpServer, McpServers } from "../registry/mcp-servers.ts";
import { sendJson } from "../server/http-reply.ts";
import { readJsonBody } from "../server/rest/body.ts";
import { parseJson } from "../server/rest/json-text.ts";
import type { Action } from "../state/types.ts";
import { createId } from "../store/ids.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { McpCaller, McpCallers } from "./caller.ts";
import { type Endpoint, type Generation, upstreamUnavailable } from "./endpoint.ts";
import { listTools } from "./listing.ts";
import {
  errorOf,
  faultOf,
  isRequest,
  isResponse,
  RPC_CODES,
  type RpcId,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
  resultOf,
  rpcMessageFrom,
} from "./messages.ts";
import type { RequestOrigins } from "./origin.ts";
import type { ProtectedResource } from "./protected-resource.ts";
import { type RelayEnd, relay, tooLongError } from "./relay.ts";
import { Reply } from "./reply.ts";
import type { McpEnds } from "./session-ends.ts";
import { type OpenCall, type Session, Sessions } from "./sessions.ts";
import { type ToolCallOutcome, ToolCalls, type ToolCallsOptions } from "./tool-calls.ts";
import { refusal } from "./tool-results.ts";
import type { Upstreams } from "./upstreams.ts";

/** Parts and settings of the gateway. */
export interface GatewayOptions extends ToolCallsOptions {
  readonly servers: Pick<McpServers, "find">;
  readonly definitions: Pick<McpDefinitions, "review">;
  readonly callers: Pick<McpCallers, "identify">;
  readonly ends: Pick<McpEnds, "watch">;
  readonly origins: Pick<RequestOrigins, "assertAllowed">;
  readonly resource: Pick<ProtectedResource, "resourceOf" | "challenge">;
  readonly upstreams: Upstreams;
  readonly logs: WorkspaceLogs;
  readonly log: StoreLog;
  readonly metrics: Registry;
  /** Maximum bytes of a message of a client, and of a message of a server. */
  readonly maxBodyBytes: number;
  readonly maxResultBytes: number;
  /** Milliseconds without a message of the server after which a forwarded request is given up. */
  readonly answerMs: number;
}

/** One message of a client, on its way. */
interface Exchange {
  readonly server: McpServer;
  readonly caller: McpCaller;
  readonly generation: Generation;
  readonly endpoint: Endpoint;
  /** Headers for the upstream server. */
  readonly headers: Readonly<Record<string, string>>;
  readonly session: Session | undefined;
  readonly reply: Reply;
  /** Aborts when the client goes away, its key ends, it cancels the call, or the service closes. */
  readonly ending: AbortController;
}

const PREFIX = "/mcp";
const MAX_DEPTH = 64;
/** Bytes of all clients' messages in flight: those that are read, held or forwarded. */
const MAX_HELD_BYTES = 134_217_728;
/** Headers of a client that its upstream server gets. */
const PASSED_HEADERS = ["last-event-id", "mcp-protocol-version", "mcp-method", "mcp-name", "traceparent", "tracestate"];
const PARAMETER_HEADER = /^mcp-param-[a-z0-9_-]+$/;
const BASE64_NAME = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/;
const SESSION_HEADER = "mcp-session-id";
const ACCEPT = "application/json, text/event-stream";
/** Reviewed tools that are remembered, by server or session. */
const LIST_TTL_MS = 0;
const CLIENT_LEFT = "the client went away";

/** Serves `/mcp/{name}`: a reverse proxy in front of MCP servers that decides every call of a tool. */
export class McpGateway {
  readonly prefix = PREFIX;
  readonly #options: GatewayOptions;
  readonly #sessions: Sessions;
  readonly #calls: ToolCalls;
  readonly #closing = new AbortController();
  readonly #exchanges = new Set<AbortController>();
  #heldBytes = 0;
  /** Tools of each server as they were last reviewed. */
  readonly #reviewed = new WeakMap<McpServer, ReadonlyMap<string, ReviewedTool>>();
  readonly #listings = new WeakMap<object, Promise<ReadonlyMap<string, ReviewedTool>>>();
  readonly #outcomes: Counter;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#sessions = new Sessions(options);
    this.#calls = new ToolCalls(options);
    const registers = [options.metrics];
    this.#outcomes = new Counter({
      name: "acp_mcp_calls_total",
      help: "Tool calls through the MCP gateway, by what became of them.",
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
    await this.#sessions.closeAll(reason);
    await this.#options.upstreams.close();
  }

  /** Connects to a server, lists its tools and pins them, on behalf of a person. Rejects with MCP_UPSTREAM_UNAVAILABLE. */
  async refresh(server: McpServer, by: string, signal: AbortSignal): Promise<Iterable<ReviewedTool>> {
    const { upstreams, definitions } = this.#options;
    const tools = await upstreams.listOnce(server, signal);
    return (await definitions.review(server, tools, by)).values();
  }

  async #serve(request: IncomingMessage, response: ServerResponse, name: string): Promise<void> {
    const { origins, callers, resource, servers } = this.#options;
    origins.assertAllowed(request);
    this.#closing.signal.throwIfAborted();
    const caller = await callers.identify(request, resource.resourceOf(request, `${PREFIX}/${name}`));
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
    const reply = new Reply(response);
    if (request.method === "POST") return this.#post(request, { caller, server, reply, ending });
    if (request.method === "GET") return this.#stream(request, { caller, server, reply, ending });
    if (request.method === "DELETE") return this.#end(request, { caller, server, reply, ending });
    reply.setHeader("allow", "POST, GET, DELETE");
    reply.json(405, errorBody(RPC_CODES.server, "use POST, GET or DELETE"));
  }

  /** Serves one message of a client. */
  async #post(
    request: IncomingMessage,
    given: Pick<Exchange, "caller" | "server" | "reply" | "ending">,
  ): Promise<void> {
    const held = { bytes: 0 };
    try {
      const hold = (bytes: number): void => this.#hold(held, bytes);
      const bytes = await readJsonBody(request, this.#options.maxBodyBytes, hold);
      await this.#receive(request, given, parseJson(bytes, MAX_DEPTH).value);
    } finally {
      this.#heldBytes -= held.bytes;
    }
  }

  #hold(held: { bytes: number }, bytes: number): void {
    if (this.#heldBytes + bytes > MAX_HELD_BYTES) {
      const message = `the messages in flight hold ${MAX_HELD_BYTES} bytes; retry with back-off`;
      throw new ControlPlaneError(ErrorReason.OVERLOADED, message, { max_bytes: String(MAX_HELD_BYTES) });
    }
    this.#heldBytes += bytes;
    held.bytes += bytes;
  }

  async #receive(
    request: IncomingMessage,
    given: Pick<Exchange, "caller" | "server" | "reply" | "ending">,
    value: unknown,
  ): Promise<void> {
    const { reply, server, caller } = given;
    if (Array.isArray(value)) {
      return reply.json(400, errorBody(RPC_CODES.invalidRequest, "batches are not served; send one message a request"));
    }
    const message = rpcMessageFrom(value);
    if (message === undefined) {
      return reply.json(400, errorBody(RPC_CODES.invalidRequest, "the body is no JSON-RPC 2.0 message"));
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
    const disagreeing = nameDisagreement(request, message);
    if (disagreeing !== undefined) {
      const id = isRequest(message) ? message.id : null;
      return reply.json(400, { jsonrpc: "2.0", id, error: { code: RPC_CODES.headerMismatch, message: disagreeing } });
    }
    const headers = passedHeaders(request);
    try {
      if (outcome.kind === "modern") {
        const endpoint = await this.#options.upstreams.stateless(server, caller.agentId);
        return await this.#exchange(
          { ...given, generation: "stateless", endpoint, headers, session: undefined },
          message,
        );
      }
      if (isRequest(message) && message.method === "initialize") return await this.#initialize(given, headers, message);
      const session = this.#sessions.get(headerOf(request, SESSION_HEADER), caller, server);
      await this.#exchange({ ...given, ...inSession(session, headers) }, message);
    } catch (error) {
      if (!isRequest(message) || httpStatusOf(error) === 404 || httpStatusOf(error) === 401) throw error;
      this.#note(error, server);
      await reply.finish(faultOf(message.id, error));
    }
  }

  /** Opens a session. */
  async #initialize(
    given: Pick<Exchange, "caller" | "server" | "reply" | "ending">,
    headers: Readonly<Record<string, string>>,
    message: RpcRequest,
  ): Promise<void> {
    const { caller, server, reply } = given;
    const endpoint = await this.#options.upstreams.stateful(server, message.params);
    const session = await this.#sessions.open(caller, server, endpoint).catch(async (error: unknown) => {
      await endpoint.close();
      throw error;
    });
    const fail = (reason: unknown) => this.#sessions.close(session, reason);
    const unwatch = await this.#options.ends.watch(caller, (reason) => void fail(reason), session.id);
    session.onClosed = unwatch;
    try {
      const exchange = { ...given, ...inSession(session, headers) };
      const open = async (): Promise<Response> => {
        const answer = await this.#forward(exchange, message);
        session.upstreamId = answer.headers.get(SESSION_HEADER) ?? undefined;
        reply.setHeader(SESSION_HEADER, session.id);
        return answer;
      };
      const end = await this.#relay(exchange, open, message, async (response) => {
        if (response.error !== undefined) void fail(new Error("the server refused the session"));
        return response;
      });
      if (end !== "answered") await fail(new Error("the server opened no session"));
    } catch (error) {
      await fail(error);
      throw error;
    }
  }

  /** Passes a message on, or decides it. */
  async #exchange(exchange: Exchange, message: RpcMessage): Promise<void> {
    const unwatch = exchange.session === undefined ? await this.#watch(exchange) : undefined;
    try {
      if (isRequest(message)) await this.#request(exchange, message);
      else {
        if (!isResponse(message) && message.method === "notifications/cancelled")
          this.#cancel(exchange, message.params);
        await this.#relay(exchange, () => this.#forward(exchange, message), undefined, passThrough);
      }
    } finally {
      unwatch?.();
    }
  }

  #watch({ caller, ending }: Exchange): Promise<() => void> {
    return this.#options.ends.watch(caller, (reason) => ending.abort(reason));
  }

  async #request(exchange: Exchange, request: RpcRequest): Promise<void> {
    const call: OpenCall = { id: request.id, method: request.method, ending: exchange.ending, isForwarded: false };
    if (exchange.session?.open.has(request.id)) {
      const text = "a request with this id is in flight in the session";
      return exchange.reply.finish(errorOf(request.id, RPC_CODES.invalidRequest, text));
    }
    exchange.session?.open.set(request.id, call);
    let isKept = false;
    try {
      if (request.method === "tools/call") isKept = (await this.#callTool(exchange, request, call)) === "unanswered";
      else {
        call.isForwarded = true;
        const transform = request.method === "tools/list" ? this.#listed(exchange, request) : passThrough;
        const end = await this.#relay(exchange, () => this.#forward(exchange, request), request, transform);
        isKept = end !== "answered";
      }
    } finally {
      // One that broke off may be answered when the client resumes its stream.
      if (!isKept) exchange.session?.open.delete(request.id);
    }
  }

  /** Decides a call of a tool, and forwards it once if it may pass. */
  async #callTool(exchange: Exchange, request: RpcRequest, call: OpenCall): Promise<"answered" | "unanswered"> {
    const { server, caller, session, reply, ending } = exchange;
    const { id, params = {} } = request;
    const tool = ownValue(params, "name");
    const args = ownValue(params, "arguments") ?? {};
    if (typeof tool !== "string" || !isJsonObject(args)) {
      await reply.finish(errorOf(id, RPC_CODES.invalidParams, "`name` must be text and `arguments` an object"));
      return "answered";
    }
    const token = ownValue((ownValue(params, "_meta") ?? {}) as JsonObject, "progressToken");
    const outcome = await this.#calls.decide({
      ...{ server, caller, sessionId: session?.id, tool, arguments: args, signal: ending.signal },
      known: this.#reviewed.get(server)?.get(tool),
      review: async () => (await this.#review(exchange, params)).get(tool),
      onHeld: token === undefined ? undefined : (message, seconds) => progress(reply, token, message, seconds),
    });
    this.#count(outcome);
    if (outcome.kind === "answer") {
      await reply.finish(resultOf(id, this.#inGeneration(exchange, outcome.result)));
      return "answered";
    }
    ending.signal.throwIfAborted();
    call.isForwarded = true;
    const forwarded = { ...request, params: { ...params, arguments: outcome.arguments } };
    const end = await this.#relay(exchange, () => this.#forward(exchange, forwarded), request, passThrough);
    return end === "answered" ? "answered" : "unanswered";
  }

  #count(outcome: ToolCallOutcome): void {
    const decision = outcome.sealed?.decision ?? "refused";
    this.#outcomes.inc({ outcome: outcome.kind === "forward" ? "forwarded" : decision });
  }

  /** Adds what a result needs in its generation. */
  #inGeneration({ generation }: Exchange, result: JsonObject): JsonObject {
    return generation === "stateless" ? { resultType: "complete", ...result } : result;
  }

  /** Lists and reviews the tools now. Callers that wait for a listing to begin share it. */
  async #review(exchange: Exchange, params: JsonObject): Promise<ReadonlyMap<string, ReviewedTool>> {
    const { server, caller, session, headers, endpoint, ending, generation } = exchange;
    const key: object = session ?? endpoint;
    const before = this.#listings.get(key);
    const meta = generation === "stateless" ? envelopeOf(params) : undefined;
    const { "mcp-name": _, "mcp-method": __, ...own } = headers;
    const list = async () => {
      const tools = await listTools({ server: server.name, endpoint, headers: own, meta }, ending.signal);
      const reviewed = await this.#options.definitions.review(server, tools, caller.keyId);
      this.#reviewed.set(server, reviewed);
      return reviewed;
    };
    // A listing that began before the call proves nothing about the tool at the time of the call.
    const listing = before === undefined ? list() : before.catch(() => undefined).then(list);
    this.#listings.set(key, listing);
    try {
      return await listing;
    } finally {
      if (this.#listings.get(key) === listing) this.#listings.delete(key);
    }
  }

  /** Makes the change to the answer to `tools/list`: what may not be called is left out, and the rest is in a fixed order. */
  #listed(exchange: Exchange, request: RpcRequest): (response: RpcResponse) => Promise<RpcResponse> {
    return async (response) => {
      const { server, caller, generation } = exchange;
      const tools = ownValue(response.result ?? {}, "tools");
      if (response.result === undefined || !Array.isArray(tools)) return response;
      const isWhole =
        ownValue(request.params ?? {}, "cursor") === undefined && ownValue(response.result, "nextCursor") === undefined;
      const given = tools.filter((tool) => isJsonObject(tool)) as McpTool[];
      const reviewed = await this.#options.definitions.review(server, given, caller.keyId);
      if (isWhole) this.#reviewed.set(server, reviewed);
      const log = await this.#options.logs.of(caller.workspaceId);
      const isBlocked = alwaysBlockedFor(await log.caughtUp(), caller.agentId, log.nowMs);
      const shown = given
        .filter(({ name }) => {
          const tool = reviewed.get(name);
          return tool?.status === "active" && !isBlocked(probeOf(exchange, tool.registeredName));
        })
        .sort((a, b) => (a.name < b.name ? -1 : 1));
      const result: JsonObject = { ...response.result, tools: shown as readonly JsonObject[] as JsonValue };
      const ttl = ownValue(result, "ttlMs");
      const cache = { ttlMs: typeof ttl === "number" ? ttl : LIST_TTL_MS, cacheScope: "private" };
      return { ...response, result: generation === "stateless" ? { ...result, ...cache } : result };
    };
  }

  /** Takes a client's cancellation to the call in flight. */
  #cancel({ session }: Exchange, params: JsonObject = {}): void {
    const call = session?.open.get(ownValue(params, "requestId") as RpcId);
    // A forwarded call is cancelled by its server, which gets the notification too.
    if (call === undefined || call.isForwarded) return;
    call.ending.abort(new ControlPlaneError(ErrorReason.CANCELLED, "the client cancelled the call"));
  }

  /** Serves the stream of a server's own messages. */
  async #stream(
    request: IncomingMessage,
    given: Pick<Exchange, "caller" | "server" | "reply" | "ending">,
  ): Promise<void> {
    const { caller, server, reply, ending } = given;
    const session = this.#sessions.get(headerOf(request, SESSION_HEADER), caller, server);
    const exchange = { ...given, ...inSession(session, passedHeaders(request)) };
    session.streams.add(ending);
    try {
      const { headers } = exchange;
      const open = () => session.endpoint.fetch({ method: "GET", headers, signal: ending.signal });
      await this.#relay(exchange, open, undefined, passThrough);
      reply.end();
    } finally {
      session.streams.delete(ending);
      session.usedAt = performance.now();
    }
  }

  /** Ends a session. */
  async #end(request: IncomingMessage, given: Pick<Exchange, "caller" | "server" | "reply" | "ending">): Promise<void> {
    const { caller, server, reply, ending } = given;
    const session = this.#sessions.get(headerOf(request, SESSION_HEADER), caller, server);
    const { headers } = inSession(session, passedHeaders(request));
    const answer = await session.endpoint.fetch({ method: "DELETE", headers, signal: ending.signal });
    await answer.body?.cancel();
    await this.#sessions.close(session, new Error("the client ended the session"));
    reply.text(200, undefined, "");
  }

  #forward({ endpoint, headers, ending }: Exchange, message: RpcMessage): Promise<Response> {
    return endpoint.fetch({ method: "POST", headers, body: JSON.stringify(message), signal: ending.signal });
  }

  /** Asks the server and passes its answer on. Gives a request up when the server falls silent. */
  async #relay(
    exchange: Exchange,
    ask: () => Promise<Response>,
    request: RpcRequest | undefined,
    transform: (response: RpcResponse) => RpcResponse | Promise<RpcResponse>,
  ): Promise<RelayEnd> {
    const { server, reply, session, ending } = exchange;
    const { maxResultBytes: maxBytes, answerMs, log } = this.#options;
    const giveUp = () => ending.abort(upstreamUnavailable(server.name, `sent nothing for ${answerMs / 1000} s`));
    let timer = request === undefined ? undefined : setTimeout(giveUp, answerMs);
    let dropped = 0;
    try {
      const end = await relay({
        ...{ server: server.name, response: await ask(), reply, id: request?.id, maxBytes },
        onMessage: () => {
          if (timer === undefined) return;
          clearTimeout(timer);
          timer = setTimeout(giveUp, answerMs);
        },
        awaits: (id) => id === request?.id || (request === undefined && session?.open.get(id)?.isForwarded === true),
        transform: async (given) => {
          if (request === undefined) session?.open.delete(given.id);
          return transform(given);
        },
        onDropped: (why) => {
          dropped += 1;
          if (dropped === 1)
            log.warn({ workspaceId: server.workspaceId, server: server.name, why }, "mcp message dropped");
        },
        tooLong: (id) => this.#tooLong(exchange, id, request),
      });
      if (request === undefined || end === "answered") {
        if (end === "answered") reply.end();
        return end;
      }
      return await this.#unanswered(exchange, request, end);
    } catch (error) {
      if (ending.signal.aborted) throw ending.signal.reason;
      throw error instanceof ControlPlaneError
        ? error
        : upstreamUnavailable(server.name, "broke its answer off", error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the answer to a request that the server left open. The client may resume a stream of its session. */
  async #unanswered(
    { server, reply, session, ending }: Exchange,
    request: RpcRequest,
    end: RelayEnd,
  ): Promise<RelayEnd> {
    if (!reply.hasBegun || session === undefined) {
      const reason: unknown = ending.signal.aborted
        ? ending.signal.reason
        : upstreamUnavailable(server.name, "closed its answer before the response");
      if (!reply.isOver) await reply.finish(faultOf(request.id, reason));
      return "answered";
    }
    if (ending.signal.aborted && !reply.isOver) {
      await reply.finish(faultOf(request.id, ending.signal.reason));
      return "answered";
    }
    reply.end();
    return end;
  }

  #tooLong(exchange: Exchange, id: RpcId, request: RpcRequest | undefined): RpcResponse {
    const { server } = exchange;
    const { maxResultBytes } = this.#options;
    const error = tooLongError(id, server.name, maxResultBytes);
    if (request?.method !== "tools/call") return error;
    const text = `${error.error?.message}. The tool may have run; ask for less at once.`;
    const result = refusal(text, {
      decision: "allow",
      reasons: [{ code: "RESULT_TOO_LONG", message: error.error?.message ?? "" }],
    });
    return resultOf(id, this.#inGeneration(exchange, result));
  }

  #note(error: unknown, server: McpServer): void {
    const known = error instanceof ControlPlaneError ? error : undefined;
    if (known !== undefined && known.reason !== ErrorReason.MCP_UPSTREAM_UNAVAILABLE) return;
    const cause = known === undefined ? stackOf(error) : stackOf(known.cause);
    const details = { workspaceId: server.workspaceId, server: server.name, fault: known?.message, cause };
    this.#options.log.warn(details, "mcp request failed");
  }

  /** Answers a request that reached no exchange. */
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

const passThrough = (response: RpcResponse): RpcResponse => response;

const stackOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));

const httpStatusOf = (error: unknown): number => httpStatusFromReason(controlPlaneErrorFrom(error).reason);

/** Creates an error that answers no request. */
function errorBody(code: number, message: string, data?: JsonObject): object {
  return { jsonrpc: "2.0", id: null, error: { code, message, ...(data === undefined ? {} : { data }) } };
}

/** Returns the server that a path names: `/mcp/{name}`. */
function serverNameFrom(url = "/"): string | undefined {
  const [path = ""] = url.split("?");
  const [, name, rest] = /^\/mcp\/([A-Za-z0-9-]{1,63})(\/?)$/.exec(path) ?? [];
  return rest === "/" ? undefined : name?.toLowerCase();
}

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

function standardHeaders(request: IncomingMessage) {
  const protocolVersionHeader = headerOf(request, "mcp-protocol-version");
  const mcpMethodHeader = headerOf(request, "mcp-method");
  const mcpNameHeader = headerOf(request, "mcp-name");
  return {
    ...(protocolVersionHeader === undefined ? {} : { protocolVersionHeader }),
    ...(mcpMethodHeader === undefined ? {} : { mcpMethodHeader }),
    ...(mcpNameHeader === undefined ? {} : { mcpNameHeader }),
  };
}

/** Tells how `Mcp-Name` or `Mcp-Method` disagrees with the body, on which alone the gateway decides; undefined if they agree. */
function nameDisagreement(request: IncomingMessage, message: RpcMessage): string | undefined {
  if (!("method" in message)) return undefined;
  const method = headerOf(request, "mcp-method");
  if (method !== undefined && method !== message.method) {
    return `the header Mcp-Method names another method than the body's \`${message.method}\``;
  }
  const header = headerOf(request, "mcp-name");
  if (header === undefined) return undefined;
  const encoded = BASE64_NAME.exec(header)?.[1];
  const given = encoded === undefined ? header : Buffer.from(encoded, "base64").toString("utf8");
  const params = message.params ?? {};
  const names = [ownValue(params, "name"), ownValue(params, "uri")].filter((each) => each !== undefined);
  if (names.length === 0 || names.includes(given)) return undefined;
  return "the header Mcp-Name names something else than the body";
}

/** Returns the headers that the upstream server gets: those of the protocol, and none that says who calls. */
function passedHeaders(request: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = { accept: ACCEPT };
  if (request.method === "POST") headers["content-type"] = "application/json";
  for (const name in request.headers) {
    const value = headerOf(request, name);
    if (value !== undefined && (PASSED_HEADERS.includes(name) || PARAMETER_HEADER.test(name))) headers[name] = value;
  }
  return headers;
}

function inSession(session: Session, headers: Readonly<Record<string, string>>) {
  const { upstreamId, endpoint } = session;
  return {
    ...{ generation: "stateful" as const, session, endpoint },
    headers: upstreamId === undefined ? headers : { ...headers, [SESSION_HEADER]: upstreamId },
  };
}

/** Returns the members of `_meta` that say which version and capabilities a stateless client has. */
function envelopeOf(params: JsonObject): JsonObject {
  const meta = ownValue(params, "_meta");
  if (!isJsonObject(meta)) return {};
  return Object.fromEntries(Object.entries(meta).filter(([name]) => name.startsWith("io.modelcontextprotocol/")));
}

async function progress(reply: Reply, token: JsonValue, message: string, seconds: number): Promise<void> {
  reply.beginStream();
  const params = { progressToken: token, progress: seconds, message };
  await reply.message({ jsonrpc: "2.0", method: "notifications/progress", params });
}

/** Returns a call of a tool without arguments. */
function probeOf({ caller, server, session }: Exchange, tool: string): Action {
  const metadata = { mcp_server: server.name };
  return {
    ...{ decisionId: createId("dec"), isRetryable: false, agentId: caller.agentId, actionType: tool, tool, metadata },
    ...{ normalisedType: normaliseName(tool), actionContent: "", metadataText: "", sessionId: session?.id },
    ...{ onBehalfOf: undefined, grantId: undefined, intentContractId: undefined, escalationId: undefined },
    ...{ keyId: caller.keyId, isKeyBound: caller.isKeyBound },
  };
}
