import type { IncomingMessage, ServerResponse } from "node:http";
import type { Pool } from "pg";
import { Gauge, type Registry } from "prom-client";
import type { SharedPot } from "../async/shared-pot.ts";
import {
  ControlPlaneError,
  controlPlaneErrorFrom,
  ErrorReason,
  httpStatusFromReason,
  invalidField,
  retryAfterSecondsOf,
} from "../errors.ts";
import type { McpDefinitionKind } from "../registry/mcp-candidate.ts";
import type { ReviewedDefinition } from "../registry/mcp-definitions.ts";
import { registerMethodTools } from "../registry/mcp-method-tools.ts";
import { isTableMethod } from "../registry/mcp-methods.ts";
import type { McpServer, McpServers } from "../registry/mcp-servers.ts";
import { createHeldBytes, maxHeldBytesFor, WAITING_OVERHEAD } from "../server/held-bytes.ts";
import { sendJson } from "../server/http-reply.ts";
import type { CountCall } from "../server/rate-limits.ts";
import type { NoteRefusal } from "../server/refusals.ts";
import { readRequestJson } from "../server/request-json.ts";
import { readJsonBody } from "../server/rest/request.ts";
import { assertStorableJson } from "../server/validation.ts";
import type { Tracing } from "../tracing/tracing.ts";
import { ApprovedCalls } from "./approved-calls.ts";
import type { McpCaller, McpCallers } from "./caller.ts";
import { DecidedRequests } from "./decided-requests.ts";
import type { DeferredUpstreams } from "./deferred-upstreams.ts";
import { DefinitionLists, type DefinitionListsOptions } from "./definition-lists.ts";
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
import { forwardedMessage } from "./forwarded-members.ts";
import { headerOf, NAMED_SESSION_HEADER } from "./headers.ts";
import { HiddenListings } from "./hidden-listings.ts";
import { errorBody, type Incoming, incomingFrom, traceOf } from "./incoming.ts";
import type { KeptResults } from "./kept-results.ts";
import { traced } from "./message-span.ts";
import {
  createError,
  errorFromFault,
  isRequest,
  isResponse,
  RPC_CODES,
  type RpcMessage,
  type RpcRequest,
} from "./messages.ts";
import { methodOf, methodRefusal } from "./method-refusal.ts";
import type { Method } from "./methods.ts";
import { isObserved, ObservedResults, type ObservedResultsOptions } from "./observed-results.ts";
import { changeSubscriptions, foreignSubscription, namesOpen } from "./open-in-session.ts";
import type { RequestOrigins } from "./origin.ts";
import type { OutcomeReports } from "./outcome-reports.ts";
import type { ProtectedResource } from "./protected-resource.ts";
import { Reply } from "./reply.ts";
import { ServerTasks } from "./server-tasks.ts";
import type { McpEnds } from "./session-ends.ts";
import { SessionRequests } from "./session-requests.ts";
import { OpenCall, Sessions, type SessionsOptions } from "./sessions.ts";
import { EscalationTasks } from "./tasks.ts";
import { ToolCalls, type ToolCallsOptions } from "./tool-calls.ts";

/** Parts and settings of the gateway. */
export interface GatewayOptions
  extends Omit<ToolCallsOptions, "approved">,
    DefinitionListsOptions,
    Omit<ForwardingOptions, "serverTasks" | "observed">,
    ObservedResultsOptions,
    SessionsOptions {
  /** Logs refused calls. */
  readonly noteRefusal: NoteRefusal;
  readonly servers: Pick<McpServers, "find">;
  readonly callers: Pick<McpCallers, "identify">;
  readonly ends: Pick<McpEnds, "watch" | "endOf" | "endSeenBy">;
  readonly kept: KeptResults;
  readonly outcomes: OutcomeReports;
  readonly origins: Pick<RequestOrigins, "assertAllowed">;
  /** Counts a call before its body is read. Throws RATE_LIMITED. */
  readonly countCall: CountCall;
  readonly resource: Pick<ProtectedResource, "resourceOf" | "challenge" | "hasIssuer">;
  readonly upstreams: DeferredUpstreams;
  readonly logs: DefinitionListsOptions["logs"];
  readonly metrics: Registry;
  /** Records every message, and every request to a server, as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
  readonly pool: Pool;
  /** Maximum bytes of a message of a client. */
  readonly maxBodyBytes: number;
  /** Pot of the bytes of outcomes of tasks. */
  readonly taskPot: SharedPot;
  /** Bytes of clients' messages that workspaces share. Default 256 MiB, or eight of the largest. */
  readonly maxHeldBytes?: number | undefined;
}

/** Definitions of a server after their review, by kind. */
export type ReviewedDefinitions = ReadonlyMap<McpDefinitionKind, readonly ReviewedDefinition[]>;

const PREFIX = "/mcp";
const MAX_DEPTH = 64;

/** Serves `/mcp/{name}`: a reverse proxy in front of MCP servers that decides every tool call. */
export class McpGateway {
  readonly prefix = PREFIX;
  readonly #options: GatewayOptions;
  readonly #ends: GatewayOptions["ends"];
  readonly #sessions: Sessions;
  readonly #sessionRequests: SessionRequests;
  readonly #closing = new AbortController();
  readonly #exchanges = new Set<AbortController>();
  readonly #forwarding: Forwarding;
  readonly #approved: ApprovedCalls;
  readonly #lists: DefinitionLists;
  readonly #hidden: HiddenListings;
  readonly #decided: DecidedRequests;
  readonly #observed: ObservedResults;
  readonly #tasks: EscalationTasks;
  readonly #serverTasks: ServerTasks;
  /** Bytes of clients' messages that are read, held or forwarded. */
  readonly #held: SharedPot;
  #streams = 0;

  constructor(options: GatewayOptions) {
    this.#options = options;
    const { ends, log, maxBodyBytes } = options;
    this.#held = createHeldBytes("mcp_message_bytes", options.maxHeldBytes ?? maxHeldBytesFor(maxBodyBytes));
    const sessions = new Sessions(options);
    const lists = new DefinitionLists(options);
    const serverTasks = new ServerTasks(options);
    const onMethod = (exchange: Exchange, method: string) => lists.noteNotification(exchange, method);
    const observed = new ObservedResults(options);
    const forwarding = new Forwarding({ ...options, observed, serverTasks }, onMethod);
    const approved = new ApprovedCalls(options);
    const calls = new ToolCalls({ ...options, approved });
    const decided = new DecidedRequests({ ...options, observed, calls, approved, lists, forwarding });
    const onOutcome = decided.count.bind(decided);
    this.#ends = ends;
    this.#sessions = sessions;
    this.#serverTasks = serverTasks;
    this.#forwarding = forwarding;
    this.#approved = approved;
    this.#lists = lists;
    this.#hidden = new HiddenListings(options.logs);
    this.#decided = decided;
    this.#observed = observed;
    this.#sessionRequests = new SessionRequests({ ...options, sessions, forwarding, lists });
    const { taskPot: pot, outcomes } = options;
    this.#tasks = new EscalationTasks({ calls, lists, forwarding, observed, ends, log, pot, outcomes, onOutcome });
    new Gauge({
      name: "acp_mcp_sessions",
      help: "Open MCP sessions.",
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
      const { origins, callers } = this.#options;
      origins.assertAllowed(request);
      this.#closing.signal.throwIfAborted();
      const caller = await callers.identify(request, this.#resourceOf(request, name)).catch((error: unknown) => {
        throw this.#unidentified(error);
      });
      await this.#options.countCall(caller);
      await this.#serve(request, response, name, caller);
    } catch (error) {
      this.#refuse(request, response, name, error);
    }
    return true;
  }

  /** Open streams of servers' own messages. */
  get streams(): number {
    return this.#streams;
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

  /**
   * Connects to a server on behalf of a person, lists its definitions and pins them, and registers its methods as tools, so that
   * rules about them can be written before they are used. Rejects with MCP_UPSTREAM_UNAVAILABLE.
   */
  async refresh(server: McpServer, by: string, signal: AbortSignal): Promise<ReviewedDefinitions> {
    const { upstreams, definitions, logs, answers, faults } = this.#options;
    const reviewed = new Map<McpDefinitionKind, readonly ReviewedDefinition[]>();
    await answers.during(server, async (held) => {
      const listed = await faults.listing(server, () => upstreams.listOnce(server, held, signal));
      await registerMethodTools(await logs.of(server.workspaceId), server, by);
      for (const [kind, listing] of listed) {
        reviewed.set(kind, [...(await definitions.review(server, kind, listing, by)).values()]);
      }
    });
    return reviewed;
  }

  /** Loads what calls of servers need, so that the first one does not wait for it. */
  prepare(): Promise<void> {
    return this.#options.upstreams.prepare();
  }

  #resourceOf(request: IncomingMessage, name: string): string | undefined {
    return this.#options.resource.resourceOf(request, `${PREFIX}/${name}`);
  }

  /** Finds the server, and watches over the caller's rights until the request is served. */
  async #serve(request: IncomingMessage, response: ServerResponse, name: string, caller: McpCaller): Promise<void> {
    const { callers, ends, resource, servers } = this.#options;
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
    const namedSession = namedSessionOf(request);
    const unwatch = await ends.watch(caller, (reason) => ending.abort(reason));
    try {
      // Identified again: the watch does not report an end before it began.
      const { isEnded } = await callers.identify(request, this.#resourceOf(request, name));
      const now = { ...caller, isEnded };
      const publicUrl = resource.resourceOf(request, "");
      const reply = new Reply(response);
      await this.#method(request, {
        caller: now,
        server,
        namedSession,
        publicUrl,
        reply,
        bytes: 0,
        trace: undefined,
        span: undefined,
        ending,
      });
    } finally {
      unwatch();
    }
  }

  async #method(request: IncomingMessage, given: Unrouted): Promise<void> {
    const { reply, caller } = given;
    if (request.method === "POST") return this.#post(request, given);
    const ended = await this.#options.ends.endOf(caller);
    if (ended !== undefined) throw ended;
    if (request.method === "GET") return this.#stream(request, given);
    if (request.method === "DELETE") return this.#sessionRequests.end(request, given);
    reply.setHeader("allow", "POST, GET, DELETE");
    reply.json(405, errorBody(RPC_CODES.server, "use POST, GET or DELETE"));
  }

  /** Serves a stream of a server's own messages. */
  #stream(request: IncomingMessage, given: Unrouted): Promise<void> {
    return this.#held.during(given.caller, async (held) => {
      held.add(WAITING_OVERHEAD);
      this.#streams += 1;
      try {
        await this.#sessionRequests.stream(request, given);
      } finally {
        this.#streams -= 1;
      }
    });
  }

  /** Serves one message of a client. */
  #post(request: IncomingMessage, given: Unrouted): Promise<void> {
    return this.#held.during(given.caller, async (held) => {
      held.add(WAITING_OVERHEAD);
      const { maxBodyBytes: maxBytes } = this.#options;
      const body = await readJsonBody(request, { maxBytes }, (bytes) => held.add(bytes));
      const { caller, ending } = given;
      const { workspaceId, agentId } = caller;
      const step = { workspaceId, agentId, bytes: body.length, signal: ending.signal };
      await this.#options.largeRequests.giveWay(step);
      const { value, weight } = await readRequestJson(body, MAX_DEPTH);
      assertStorableJson(value, MAX_DEPTH);
      const incoming = await incomingFrom(request, value);
      if ("status" in incoming) return given.reply.json(incoming.status, incoming.body);
      const trace = traceOf(request, incoming);
      await traced(this.#options.tracing, incoming, trace, request, {
        reply: given.reply,
        serve: (place, span) => this.#receive(request, { ...given, bytes: weight, trace: place, span }, incoming),
      });
    });
  }

  /** Settles who calls and whether the message may pass, before anything opens at the server. */
  async #receive(request: IncomingMessage, given: Unrouted, incoming: Incoming): Promise<void> {
    const { reply, server, caller } = given;
    const { message } = incoming;
    try {
      const method = methodOf(incoming);
      // The decision itself is exact. An agent that has ended is looked up once more, since its calls are refused on record.
      const ended = await (method?.rule === "decided" ? this.#ends.endSeenBy(caller) : this.#ends.endOf(caller));
      if (ended !== undefined) return reply.json(401, await this.#decided.refuseEnded(given, ended, incoming));
      const refusal = methodRefusal(incoming, method, server);
      if (refusal !== undefined) return reply.json(refusal.status, refusal.body);
      const passed = forwardedMessage(message, method, server);
      await this.#route(request, given, { ...incoming, message: passed }, method);
    } catch (error) {
      if (!isRequest(message) || [401, 404].includes(httpStatusOf(error))) throw error;
      noteFault(this.#options.log, server, error);
      const retryAfter = retryAfterSecondsOf(controlPlaneErrorFrom(error));
      if (retryAfter !== undefined) reply.setHeader("retry-after", String(retryAfter));
      await reply.finish(errorFromFault(message.id, error));
    }
  }

  /** Passes a message to the endpoint of its session or generation. */
  async #route(
    request: IncomingMessage,
    given: Unrouted,
    incoming: Incoming,
    method: Method | undefined,
  ): Promise<void> {
    const { server, caller } = given;
    const { message, generation, headers, parameters } = incoming;
    if (generation === "stateless") {
      // Nothing is open in a stateless request that a response or notification could name.
      if (isResponse(message) || (!isRequest(message) && isTableMethod(message.method))) return this.#dropped(given);
      const { upstreams, faults } = this.#options;
      const endpoint = await faults.during(server, () => upstreams.stateless(server, caller.agentId, message.params));
      const exchange = { ...given, generation, endpoint, headers, session: undefined };
      if (!isRequest(message)) return this.#pass(exchange, message);
      return this.#request(exchange, message, method, parameters);
    }
    if (isRequest(message) && message.method === "initialize") {
      return this.#sessionRequests.initialize(given, headers, message);
    }
    const session = this.#sessionRequests.sessionOf(request, given);
    const exchange = { ...given, ...inSession(session, headers) };
    if (isRequest(message)) return this.#request(exchange, message, method, parameters);
    if (isResponse(message)) {
      if (session.fromServer.takes(message)) return this.#pass(exchange, message);
      const text = "the server has no request of this id open in the session";
      return given.reply.json(400, errorBody(RPC_CODES.invalidRequest, text));
    }
    if (namesOpen(session, message)) return this.#pass(exchange, message);
    return this.#dropped(given);
  }

  /** Passes a notification or a response on. */
  async #pass(exchange: Exchange, message: RpcMessage): Promise<void> {
    await this.#forwarding.giveWay(exchange);
    await this.#forwarding.relay(exchange, () => this.#forwarding.send(exchange, message), undefined);
  }

  /** Acknowledges a notification of something that is no longer open, as any server would. It goes no further. */
  #dropped({ reply }: Unrouted): void {
    reply.text(202, undefined, "");
  }

  async #request(
    exchange: Exchange,
    request: RpcRequest,
    method: Method | undefined,
    parameters: Incoming["parameters"],
  ): Promise<void> {
    const { session, reply, ending } = exchange;
    if (session?.open.has(request.id)) {
      const text = "a request with this id is in flight in the session";
      return reply.finish(createError(request.id, RPC_CODES.invalidRequest, text));
    }
    const tasks = this.#tasks;
    if (tasks.isOwn(exchange, request)) return this.#answerTask(exchange, request);
    const foreign = foreignSubscription(session, request) ?? (await this.#serverTasks.refusal(exchange, request));
    if (foreign !== undefined) return reply.finish(foreign);
    const change = this.#changeOf(exchange, request, () => call.outcome);
    const call: OpenCall = new OpenCall(request, ending, change);
    if (method?.rule !== "decided" && isObserved(request.method, method)) {
      await this.#observed.assertOwn(exchange);
      call.observe = this.#observed.stepOf(exchange, call, undefined);
    }
    session?.open.set(request.id, call);
    let isKept = false;
    try {
      isKept =
        method?.rule === "decided"
          ? !(await this.#decided.serve(exchange, request, call, { parameters, tasks, method }))
          : !(await this.#forwarding.forward(exchange, request, call));
    } finally {
      // A call whose response broke off may be answered when the client resumes its stream.
      if (!isKept) session?.open.delete(request.id);
      session?.touch();
    }
  }

  /** Returns the change to the response of a request; undefined if the response is passed on unchanged. */
  #changeOf(
    exchange: Exchange,
    request: RpcRequest,
    outcomeOf: () => OpenCall["outcome"],
  ): OpenCall["transform"] | undefined {
    const { session, generation } = exchange;
    const filter = this.#lists.filter(exchange, request);
    switch (request.method) {
      case "tools/list":
        return filter;
      case "resources/list":
      case "resources/templates/list":
      case "prompts/list":
        return this.#hidden.filter(exchange, request.method, filter);
      case "tools/call":
        return this.#serverTasks.record(exchange, outcomeOf);
      case "tasks/get":
      case "tasks/result":
      case "tasks/cancel":
        return this.#serverTasks.settle(exchange, request);
      case "tasks/list":
        return this.#serverTasks.filter(exchange);
      case "resources/subscribe":
      case "resources/unsubscribe":
        return (response) => changeSubscriptions(session, request, response);
      case "server/discover":
        if (generation !== "stateless") return undefined;
        return async (response) => this.#tasks.declare((await filter?.(response)) ?? response);
      default:
        return undefined;
    }
  }

  async #answerTask(exchange: Exchange, request: RpcRequest): Promise<void> {
    await this.#observed.assertOwn(exchange);
    const response = await this.#tasks.answer(exchange, request);
    await exchange.reply.finish(response, response.error?.code === RPC_CODES.missingCapability ? 400 : 200);
  }

  /**
   * Returns the error for a caller without a usable key. Without an issuer of access tokens there is nowhere to sign in: a
   * challenge would send clients to look for one.
   */
  #unidentified(error: unknown): unknown {
    const isKeyFault = error instanceof ControlPlaneError && KEY_FAULTS.has(error.reason);
    return isKeyFault && !this.#options.resource.hasIssuer ? new KeyRefusal(error) : error;
  }

  /** Answers a request that failed before its exchange. */
  #refuse(request: IncomingMessage, response: ServerResponse, name: string, thrown: unknown): void {
    const cause = thrown instanceof KeyRefusal ? thrown.error : thrown;
    this.#options.noteRefusal(request, PREFIX, cause);
    const error = controlPlaneErrorFrom(cause);
    if (!(cause instanceof ControlPlaneError) || error.reason === ErrorReason.STORE_UNAVAILABLE)
      this.#options.log.error({ server: name, cause: stackOf(cause) }, "mcp request failed");
    if (response.headersSent || response.destroyed) return void response.destroy();
    const { message, metadata, reason } = error;
    if (thrown instanceof KeyRefusal) {
      new Reply(response).text(403, "text/plain; charset=utf-8", `${message}\n`);
      return;
    }
    const status = httpStatusOf(error);
    const challenge = this.#options.resource.challenge(request, `${PREFIX}/${name}`, error);
    const retryAfter = retryAfterSecondsOf(error);
    const headers = retryAfter === undefined ? challenge : { ...challenge, "retry-after": String(retryAfter) };
    const code = status === 400 ? RPC_CODES.invalidRequest : RPC_CODES.server;
    const body = errorBody(code, message, { reason: ErrorReason[reason] ?? "INTERNAL", metadata: { ...metadata } });
    sendJson(response, status, JSON.stringify(body), headers);
  }
}

/** Maximum characters of a session's id. */
const MAX_SESSION_ID = 64;

/** Returns the session that a request names for its agent. Throws INVALID_FIELD. */
function namedSessionOf(request: IncomingMessage): string | undefined {
  const sessionId = headerOf(request, NAMED_SESSION_HEADER);
  if (sessionId === undefined || sessionId.length <= MAX_SESSION_ID) return sessionId;
  throw invalidField("X-Session-Id", `must have at most ${MAX_SESSION_ID} characters`);
}

const KEY_FAULTS: ReadonlySet<ErrorReason> = new Set([ErrorReason.KEY_MISSING, ErrorReason.KEY_INVALID]);

/** Refusal of a missing or wrong key where no issuer could give another one. */
class KeyRefusal extends Error {
  readonly error: ControlPlaneError;

  constructor(error: ControlPlaneError) {
    super(error.message);
    this.error = error;
  }
}

/** Returns the HTTP status of an error. An agent that has ended is as little known as a key that has ended. */
function httpStatusOf(thrown: unknown): number {
  const { reason } = controlPlaneErrorFrom(thrown);
  return reason === ErrorReason.AGENT_INACTIVE ? 401 : httpStatusFromReason(reason);
}

/** Returns the name of the server in a path `/mcp/{name}`. */
function serverNameFrom(url = "/"): string | undefined {
  const [path = ""] = url.split("?");
  const [, name, rest] = /^\/mcp\/([A-Za-z0-9-]{1,63})(\/?)$/.exec(path) ?? [];
  return rest === "/" ? undefined : name?.toLowerCase();
}
