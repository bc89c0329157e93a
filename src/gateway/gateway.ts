import type { IncomingMessage, ServerResponse } from "node:http";
import type { JsonObject } from "@bufbuild/protobuf";
import { Gauge, type Registry } from "prom-client";
import type { SharedPot } from "../async/shared-pot.ts";
import {
  ControlPlaneError,
  controlPlaneErrorFrom,
  ErrorReason,
  httpStatusFromReason,
  retryAfterSecondsOf,
} from "../errors.ts";
import { ownValue } from "../policy/json-value.ts";
import type { ReviewedTool } from "../registry/mcp-definitions.ts";
import type { McpServer, McpServers } from "../registry/mcp-servers.ts";
import { createHeldBytes, maxHeldBytesFor } from "../server/held-bytes.ts";
import { sendJson } from "../server/http-reply.ts";
import { parseJson } from "../server/rest/json.ts";
import { readJsonBody } from "../server/rest/request.ts";
import { ApprovedCalls } from "./approved-calls.ts";
import type { McpCallers } from "./caller.ts";
import { DecidedRequests } from "./decided-requests.ts";
import {
  ClientLeft,
  type Exchange,
  Forwarding,
  type ForwardingOptions,
  inSession,
  noteFault,
  stackOf,
  type Unrouted,
} from "./exchange.ts";
import { errorBody, type Incoming, incomingFrom } from "./incoming.ts";
import type { KeptResults } from "./kept-results.ts";
import {
  createError,
  errorFromFault,
  isRequest,
  isResponse,
  RPC_CODES,
  type RpcId,
  type RpcRequest,
} from "./messages.ts";
import type { RequestOrigins } from "./origin.ts";
import type { ProtectedResource } from "./protected-resource.ts";
import { Reply } from "./reply.ts";
import type { McpEnds } from "./session-ends.ts";
import { SessionRequests } from "./session-requests.ts";
import { OpenCall, Sessions, type SessionsOptions } from "./sessions.ts";
import { EscalationTasks } from "./tasks.ts";
import { ToolCalls, type ToolCallsOptions } from "./tool-calls.ts";
import { ToolLists, type ToolListsOptions } from "./tool-lists.ts";
import type { Upstreams } from "./upstreams.ts";

/** Parts and settings of the gateway. */
export interface GatewayOptions
  extends Omit<ToolCallsOptions, "approved">,
    ToolListsOptions,
    ForwardingOptions,
    SessionsOptions {
  readonly servers: Pick<McpServers, "find">;
  readonly callers: Pick<McpCallers, "identify">;
  readonly ends: Pick<McpEnds, "watch" | "endOf">;
  readonly kept: KeptResults;
  readonly origins: Pick<RequestOrigins, "assertAllowed">;
  readonly resource: Pick<ProtectedResource, "resourceOf" | "challenge">;
  readonly upstreams: Upstreams;
  readonly logs: ToolListsOptions["logs"];
  readonly metrics: Registry;
  /** Maximum bytes of a message of a client. */
  readonly maxBodyBytes: number;
}

const PREFIX = "/mcp";
const MAX_DEPTH = 64;

/** Serves `/mcp/{name}`: a reverse proxy in front of MCP servers that decides every tool call. */
export class McpGateway {
  readonly prefix = PREFIX;
  readonly #options: GatewayOptions;
  readonly #sessions: Sessions;
  readonly #sessionRequests: SessionRequests;
  readonly #closing = new AbortController();
  readonly #exchanges = new Set<AbortController>();
  readonly #forwarding: Forwarding;
  readonly #approved: ApprovedCalls;
  readonly #lists: ToolLists;
  readonly #decided: DecidedRequests;
  readonly #tasks: EscalationTasks;
  /** Bytes of clients' messages that are read, held or forwarded. */
  readonly #held: SharedPot;

  constructor(options: GatewayOptions) {
    this.#options = options;
    const { ends, log, maxResultBytes, maxBodyBytes } = options;
    this.#held = createHeldBytes("mcp_message_bytes", maxHeldBytesFor(maxBodyBytes));
    const sessions = new Sessions(options);
    const forwarding = new Forwarding(options);
    const approved = new ApprovedCalls(options);
    const calls = new ToolCalls({ ...options, approved });
    const lists = new ToolLists(options);
    const decided = new DecidedRequests({ ...options, calls, approved, lists, forwarding });
    const onOutcome = decided.count.bind(decided);
    this.#sessions = sessions;
    this.#forwarding = forwarding;
    this.#approved = approved;
    this.#lists = lists;
    this.#decided = decided;
    this.#sessionRequests = new SessionRequests({ ...options, sessions, forwarding });
    this.#tasks = new EscalationTasks({ calls, lists, forwarding, ends, log, maxResultBytes, onOutcome });
    new Gauge({
      name: "acp_mcp_sessions",
      help: "Open MCP sessions of this process.",
      registers: [options.metrics],
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
    await this.#approved.close(reason);
    await this.#sessions.closeAll(reason);
    await this.#options.upstreams.close();
  }

  /** Connects to a server on behalf of a person, lists its tools and pins them. Rejects with MCP_UPSTREAM_UNAVAILABLE. */
  async refresh(server: McpServer, by: string, signal: AbortSignal): Promise<Iterable<ReviewedTool>> {
    const { upstreams, definitions } = this.#options;
    const tools = await upstreams.listOnce(server, signal);
    return (await definitions.review(server, tools, by)).values();
  }

  /** Finds caller and server, and watches over the caller's rights until the request is served. */
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
      if (!response.writableFinished) ending.abort(new ClientLeft());
    });
    const unwatch = await ends.watch(caller, (reason) => ending.abort(reason));
    try {
      // Identified again: the watch does not report an end before it began.
      const { isEnded } = await callers.identify(request, at);
      const now = { ...caller, isEnded };
      const publicUrl = resource.resourceOf(request, "");
      await this.#method(request, { caller: now, server, publicUrl, reply: new Reply(response), bytes: 0, ending });
    } finally {
      unwatch();
    }
  }

  async #method(request: IncomingMessage, given: Unrouted): Promise<void> {
    const { reply, caller } = given;
    if (request.method === "POST") return this.#post(request, given);
    const ended = await this.#options.ends.endOf(caller);
    if (ended !== undefined) throw ended;
    if (request.method === "GET") return this.#sessionRequests.stream(request, given);
    if (request.method === "DELETE") return this.#sessionRequests.end(request, given);
    reply.setHeader("allow", "POST, GET, DELETE");
    reply.json(405, errorBody(RPC_CODES.server, "use POST, GET or DELETE"));
  }

  /** Serves one message of a client. */
  #post(request: IncomingMessage, given: Unrouted): Promise<void> {
    return this.#held.during(given.caller, async (held) => {
      const body = await readJsonBody(request, this.#options.maxBodyBytes, (bytes) => held.add(bytes));
      const sized = { ...given, bytes: body.length };
      const { caller, ending, bytes } = sized;
      const { workspaceId } = caller;
      await this.#options.largeRequests.giveWay({ workspaceId, bytes, signal: ending.signal });
      const incoming = incomingFrom(request, parseJson(body, MAX_DEPTH).value);
      if ("status" in incoming) return given.reply.json(incoming.status, incoming.body);
      await this.#receive(request, sized, incoming);
    });
  }

  /** Checks the caller, and passes the message to the endpoint of its session or generation. */
  async #receive(request: IncomingMessage, given: Unrouted, incoming: Incoming): Promise<void> {
    const { reply, server, caller } = given;
    const { message, generation, headers } = incoming;
    try {
      // The decision on a tool call checks the agent itself.
      const isDecided = isRequest(message) && message.method === "tools/call" && !caller.isEnded;
      const ended = isDecided ? undefined : await this.#options.ends.endOf(caller);
      if (ended !== undefined) return await this.#decided.refuseEnded(given, ended, incoming);
      if (generation === "stateless") {
        const { params } = isResponse(message) ? { params: undefined } : message;
        const endpoint = await this.#options.upstreams.stateless(server, caller.agentId, params);
        return await this.#exchange({ ...given, generation, endpoint, headers, session: undefined }, incoming);
      }
      if (isRequest(message) && message.method === "initialize") {
        return await this.#sessionRequests.initialize(given, headers, message);
      }
      const session = this.#sessionRequests.sessionOf(request, given);
      await this.#exchange({ ...given, ...inSession(session, headers) }, incoming);
    } catch (error) {
      if (!isRequest(message) || httpStatusOf(error) === 404 || httpStatusOf(error) === 401) throw error;
      noteFault(this.#options.log, server, error);
      const retryAfter = retryAfterSecondsOf(controlPlaneErrorFrom(error));
      if (retryAfter !== undefined) reply.setHeader("retry-after", String(retryAfter));
      await reply.finish(errorFromFault(message.id, error));
    }
  }

  /** Passes a message on, or decides it. */
  async #exchange(exchange: Exchange, { message, parameters }: Incoming): Promise<void> {
    if (isRequest(message)) return this.#request(exchange, message, parameters);
    const isCancellation = !isResponse(message) && message.method === "notifications/cancelled";
    if (isCancellation && cancel(exchange, message.params)) return exchange.reply.text(202, undefined, "");
    await this.#forwarding.giveWay(exchange);
    await this.#forwarding.relay(exchange, () => this.#forwarding.send(exchange, message), undefined);
  }

  async #request(exchange: Exchange, request: RpcRequest, parameters: Incoming["parameters"]): Promise<void> {
    const { session, reply, ending } = exchange;
    if (session?.open.has(request.id)) {
      const text = "a request with this id is in flight in the session";
      return reply.finish(createError(request.id, RPC_CODES.invalidRequest, text));
    }
    const tasks = this.#tasks;
    if (tasks.isOwn(exchange, request)) return this.#answerTask(exchange, request);
    const call = new OpenCall(request, ending, this.#changeOf(exchange, request));
    session?.open.set(request.id, call);
    const isDecided = request.method === "tools/call";
    let isKept = false;
    try {
      isKept = isDecided
        ? !(await this.#decided.callTool(exchange, request, call, { parameters, tasks }))
        : !(await this.#forwarding.forward(exchange, request, call));
    } finally {
      // A call whose response broke off may be answered when the client resumes its stream.
      if (!isKept) session?.open.delete(request.id);
      session?.touch();
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

  /** Answers a request that failed before its exchange. */
  #refuse(request: IncomingMessage, response: ServerResponse, name: string, thrown: unknown): void {
    const error = controlPlaneErrorFrom(thrown);
    if (!(thrown instanceof ControlPlaneError))
      this.#options.log.error({ server: name, cause: stackOf(thrown) }, "mcp request failed");
    if (response.headersSent || response.destroyed) return void response.destroy();
    const status = httpStatusFromReason(error.reason);
    const challenge = this.#options.resource.challenge(request, `${PREFIX}/${name}`, error);
    const retryAfter = retryAfterSecondsOf(error);
    const headers = retryAfter === undefined ? challenge : { ...challenge, "retry-after": String(retryAfter) };
    const { message, metadata, reason } = error;
    const code = status === 400 ? RPC_CODES.invalidRequest : RPC_CODES.server;
    const body = errorBody(code, message, { reason: ErrorReason[reason] ?? "INTERNAL", metadata: { ...metadata } });
    sendJson(response, status, JSON.stringify(body), headers);
  }
}

const httpStatusOf = (error: unknown): number => httpStatusFromReason(controlPlaneErrorFrom(error).reason);

/** Applies a client's cancellation to the call in flight. Returns true if the server is not told of it. */
function cancel({ session }: Exchange, params: JsonObject = {}): boolean {
  const call = session?.open.get(ownValue(params, "requestId") as RpcId);
  if (call === undefined) return false;
  // A forwarded call is cancelled by its server, which also gets the notification.
  if (call.isForwarded) return call.onCancelled?.(String(ownValue(params, "reason"))) ?? false;
  call.ending.abort(new ControlPlaneError(ErrorReason.CANCELLED, "the client cancelled the call"));
  return false;
}

/** Returns the name of the server in a path `/mcp/{name}`. */
function serverNameFrom(url = "/"): string | undefined {
  const [path = ""] = url.split("?");
  const [, name, rest] = /^\/mcp\/([A-Za-z0-9-]{1,63})(\/?)$/.exec(path) ?? [];
  return rest === "/" ? undefined : name?.toLowerCase();
}
