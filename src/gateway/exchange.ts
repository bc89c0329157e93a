import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import type { Registry } from "prom-client";
import type { SharedPot } from "../async/shared-pot.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type HistogramSeries, TallyHistogram } from "../metrics/tally.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { LargeRequests } from "../server/large-requests.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { TracePlace } from "../tracing/trace-context.ts";
import { errorTypeOf, type Span, type Tracing } from "../tracing/tracing.ts";
import { ACCEPTED, endFromFault, endFromResponse, endFromStatus } from "./call-end.ts";
import type { McpCaller } from "./caller.ts";
import { type Endpoint, type Generation, upstreamUnavailable, type WatchEnd } from "./endpoint.ts";
import { SESSION_HEADER } from "./headers.ts";
import { endWithOutcome, startRequestSpan, withPlace } from "./message-span.ts";
import {
  createResult,
  errorFromFault,
  isRequest,
  outcomeOf,
  type RpcId,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
} from "./messages.ts";
import type { ObservedResults } from "./observed-results.ts";
import type { CallOutcome } from "./outcome-reports.ts";
import { type RelayEnd, relay, tooLargeError } from "./relay.ts";
import type { Answer, Reply } from "./reply.ts";
import { MessageScrubber, type ScrubJson } from "./scrubbing.ts";
import type { ServerTasks } from "./server-tasks.ts";
import type { McpEnds } from "./session-ends.ts";
import type { OpenCall, Session } from "./sessions.ts";
import { refusal } from "./tool-results.ts";

/** Reason of an exchange whose client has closed its connection. */
export class ClientLeft extends ControlPlaneError {
  constructor() {
    super(ErrorReason.CANCELLED, "the client disconnected");
  }
}

/** One message of a client in flight. */
export interface Exchange {
  readonly server: McpServer;
  readonly caller: McpCaller;
  readonly generation: Generation;
  readonly endpoint: Endpoint;
  /** Headers for the upstream server. */
  readonly headers: Readonly<Record<string, string>>;
  readonly session: Session | undefined;
  /** Session of the agent that the client names in `X-Session-Id`, in place of the one of its connection. */
  readonly namedSession: string | undefined;
  readonly reply: Answer;
  /** Base URL of the dashboard's pages; undefined if the service does not know its own address. */
  readonly publicUrl: string | undefined;
  /** Size of the message that is decided and forwarded. */
  readonly bytes: number;
  /** Place in the trace of the message; undefined for a message without one. */
  readonly trace: TracePlace | undefined;
  /** Span of the message; undefined if nothing is recorded. */
  readonly span: Span | undefined;
  /** Aborts when the client disconnects or cancels the call, when its key ends, or when the service closes. */
  readonly ending: AbortController;
}

/** A client's message in flight before it has an endpoint. */
export interface Unrouted
  extends Pick<Exchange, "caller" | "server" | "namedSession" | "publicUrl" | "ending" | "bytes" | "trace" | "span"> {
  readonly reply: Reply;
}

/** Settings of `Forwarding`. */
export interface ForwardingOptions {
  /** Maximum bytes of a message of a server. */
  readonly maxResultBytes: number;
  /** Milliseconds without a message of the server after which a forwarded request is abandoned. */
  readonly answerMs: number;
  /** Turns of large messages. */
  readonly largeRequests: Pick<LargeRequests, "giveWay">;
  readonly ends: Pick<McpEnds, "watch">;
  readonly observed: Pick<ObservedResults, "observeRequest" | "observeText">;
  readonly serverTasks: Pick<ServerTasks, "mayKnow">;
  readonly log: StoreLog;
  /** Records every request to a server as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
  readonly scrubJson: ScrubJson;
  /** Pot of the bytes of servers' messages. */
  readonly answers: SharedPot;
  readonly metrics: Registry;
}

/** Method that asks for several resources at once, and is never answered. */
export const LISTEN = "subscriptions/listen";

/** Buckets in seconds, from a command on this machine to the longest tool. */
const BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Methods by which a server asks for an answer of the client's model or its user. */
const ASKING_METHODS = ["sampling/createMessage", "elicitation/create"];

/** Calls that wait for input of stateless clients: at most as many as sessions for these clients hold. */
const MAX_WAITING = 32_768;

/** Call of a stateless client that waits for input. */
interface WaitingCall {
  readonly outcome: CallOutcome | undefined;
  /** Session in which the call was decided. */
  readonly namedSession: string | undefined;
}

const waitingKey = ({ workspaceId, agentId }: McpCaller, state: JsonValue | undefined): string =>
  JSON.stringify([workspaceId, agentId, state ?? null]);

/** Passes messages to upstream servers, and their responses back. */
export class Forwarding {
  readonly #options: ForwardingOptions;
  readonly #answers: SharedPot;
  readonly #onMethod: (exchange: Exchange, method: string) => void;
  readonly #seconds: HistogramSeries;
  /** Calls that wait for input, by `requestState`. Those that never go on are forgotten. */
  readonly #waiting = new LRUCache<string, WaitingCall>({ maxSize: MAX_WAITING, sizeCalculation: () => 1 });

  /** `onMethod` hears the method of every request and notification of a server. */
  constructor(options: ForwardingOptions, onMethod: (exchange: Exchange, method: string) => void) {
    this.#options = options;
    this.#answers = options.answers;
    this.#onMethod = onMethod;
    this.#seconds = new TallyHistogram({
      name: "acp_mcp_call_seconds",
      help: "Seconds from forwarding a request to an MCP server to the end of its answer, or to the failure of the request.",
      labelNames: [],
      buckets: BUCKETS_SECONDS,
      registry: options.metrics,
    }).series({});
  }

  /** Waits until a message may be serialised for the server. Rejects when the exchange ends. */
  giveWay({ caller: { workspaceId, agentId }, bytes, ending: { signal } }: Exchange): Promise<void> {
    return this.#options.largeRequests.giveWay({ workspaceId, agentId, bytes, signal });
  }

  /**
   * Sends a message to the server. A large one MUST have waited for its turn. `call` is the request; its span ends with its
   * response.
   */
  async send(exchange: Exchange, message: RpcMessage, call?: OpenCall): Promise<Response> {
    const { endpoint, ending, caller, session, server, trace } = exchange;
    const watch: WatchEnd = (onEnd) => this.#options.ends.watch(caller, onEnd, session?.id);
    const span = startRequestSpan(this.#options.tracing, server, trace, message);
    const sent = withPlace(message, exchange.headers, span?.isSampled === true ? span : undefined);
    const { headers } = sent;
    const body = JSON.stringify(sent.message);
    try {
      const { signal } = ending;
      const response = await endpoint.fetch({ method: "POST", headers, body, signal, watch, aside: call?.aside });
      if (call === undefined) span?.end();
      else call.span = span;
      return response;
    } catch (error) {
      span?.end(errorTypeOf(error));
      throw error;
    }
  }

  /** Sends a request to the server and passes the response on. Resolves with false if the server may answer later. */
  async forward(exchange: Exchange, request: RpcRequest, call: OpenCall): Promise<boolean> {
    await this.giveWay(exchange);
    exchange.ending.signal.throwIfAborted();
    call.isForwarded = true;
    const sentAt = performance.now();
    try {
      return (await this.relay(exchange, () => this.send(exchange, request, call), call)) === "answered";
    } finally {
      // A subscription is never answered.
      if (request.method !== LISTEN) this.#seconds.observe((performance.now() - sentAt) / 1_000);
    }
  }

  /** Scrubs a response that was kept, by the kinds that its server names now. */
  async scrubKept({ server }: Exchange, method: string, response: RpcResponse): Promise<RpcResponse> {
    if (server.scrub.length === 0) return response;
    return new MessageScrubber(server, this.#options).response(method, response, (scrubbed) => scrubbed);
  }

  /**
   * Asks the server and passes its response on. `call` is the request; it is undefined for notifications, responses, and the
   * stream of the server's own messages, which may also carry responses to calls of the session. Abandons a request when the
   * server stays silent.
   */
  async relay(exchange: Exchange, ask: () => Promise<Response>, call: OpenCall | undefined): Promise<RelayEnd> {
    const { server, reply, session, ending } = exchange;
    const { maxResultBytes: maxBytes, answerMs } = this.#options;
    const scrubber = server.scrub.length === 0 ? undefined : new MessageScrubber(server, this.#options);
    const held = this.#answers.open(exchange.caller);
    const giveUp = () => ending.abort(upstreamUnavailable(server.name, `sent nothing for ${answerMs / 1000} s`));
    let timer = call === undefined ? undefined : setTimeout(giveUp, answerMs);
    const callOf = (id: RpcId): OpenCall | undefined => {
      const awaited = call ?? session?.open.get(id);
      return awaited?.id === id && awaited.isForwarded && !awaited.isAnswered ? awaited : undefined;
    };
    try {
      const response = await ask();
      const end = await relay({
        server: server.name,
        response,
        reply,
        id: call?.id,
        maxBytes,
        held,
        onMessage: () => {
          if (timer === undefined) return;
          clearTimeout(timer);
          timer = setTimeout(giveUp, answerMs);
        },
        passes: (message) => this.#passes(exchange, message),
        awaits: (id) => callOf(id) !== undefined,
        transform: (response) => {
          const answered = callOf(response.id);
          if (answered === undefined) return response;
          const given = answered.aside.putBack(response, held);
          answered.isAnswered = true;
          if (answered.span !== undefined) endWithOutcome(answered.span, outcomeOf(given));
          answered.onAnswered?.();
          this.#noteEnd(exchange, answered, given);
          if (call === undefined) session?.open.delete(given.id);
          const changed =
            scrubber === undefined
              ? answered.transform(given)
              : scrubber.response(answered.method, given, answered.transform);
          const { observe } = answered;
          return observe === undefined ? changed : Promise.resolve(changed).then(observe);
        },
        scrubber,
        onErrorText: async (text) => {
          if (call?.observe === undefined) return;
          // The fault of an observation says nothing of the call.
          call.outcome?.end(endFromStatus(response.status));
          await this.#options.observed.observeText(exchange, call, text);
        },
        onMethod: (method) => {
          // A subscription is acknowledged by a notification.
          if (call?.method === LISTEN) call.outcome?.end(ACCEPTED);
          this.#onMethod(exchange, method);
        },
        onDropped: this.#dropping(server),
        tooLarge: (id, excess) => this.#tooLarge(exchange, id, excess, call),
      });
      if (call === undefined || end === "answered") {
        if (end === "answered") reply.end();
        return end;
      }
      if (!response.ok) {
        call.span?.end(String(response.status));
        if (!call.isAnswered) call.outcome?.end(endFromStatus(response.status));
      }
      return await this.#unanswered(exchange, call, end);
    } catch (error) {
      call?.span?.end(errorTypeOf(ending.signal.aborted ? ending.signal.reason : error));
      call?.outcome?.end(endFromFault(error));
      if (ending.signal.aborted) throw ending.signal.reason;
      throw error instanceof ControlPlaneError
        ? error
        : upstreamUnavailable(server.name, "broke off its response", error);
    } finally {
      // The client may read slowly.
      void reply.delivered().then(() => held.release());
      clearTimeout(timer);
    }
  }

  /**
   * Reports how a call ended by its response. A call at a server with sessions that asks a stateless client for input is still open
   * there, and goes on with the request that `takeWaiting` gets.
   */
  #noteEnd({ endpoint, caller, namedSession }: Exchange, { outcome }: OpenCall, response: RpcResponse): void {
    const state = ownValue(response.result ?? {}, "requestState");
    const isWaiting = endpoint.continues !== undefined && typeof state === "string";
    if (isWaiting) this.#waiting.set(waitingKey(caller, state), { outcome, namedSession });
    else outcome?.end(endFromResponse(response));
  }

  /** Returns the call that a request continues, whose outcome the response reports. */
  takeWaiting({ caller }: Exchange, { params = {} }: RpcRequest): WaitingCall | undefined {
    const key = waitingKey(caller, ownValue(params, "requestState"));
    const waiting = this.#waiting.get(key);
    this.#waiting.delete(key);
    return waiting;
  }

  /** Tests whether a message of the server's own may pass, and notes what it opens in the session. */
  async #passes(exchange: Exchange, message: RpcMessage): Promise<boolean> {
    const isPassed =
      (await this.#options.serverTasks.mayKnow(exchange, message)) && (await this.#asks(exchange, message));
    if (isPassed) exchange.session?.fromServer.note(message);
    return isPassed;
  }

  /**
   * Has the session observe what the server asks the client's model or its user. Tests whether it could; if not, the server gets an
   * error in the client's place.
   */
  async #asks(exchange: Exchange, message: RpcMessage): Promise<boolean> {
    if (!isRequest(message) || !ASKING_METHODS.includes(message.method)) return true;
    try {
      await this.#options.observed.observeRequest(exchange, message.params ?? {});
      return true;
    } catch (error) {
      noteFault(this.#options.log, exchange.server, error);
      if (exchange.session !== undefined) this.#refuse(exchange, errorFromFault(message.id, error));
      return false;
    }
  }

  /** Answers a request of the server's own. */
  #refuse(exchange: Exchange, refusal: RpcResponse): void {
    // The stream on which the request came may have been opened without a body.
    const headers = { ...exchange.headers, "content-type": "application/json" };
    this.send({ ...exchange, headers }, refusal)
      .then((response) => response.body?.cancel())
      .catch((error: unknown) => noteFault(this.#options.log, exchange.server, error));
  }

  /** Creates the report of dropped messages, which logs the first one of each response. */
  #dropping({ workspaceId, name }: McpServer): (why: string) => void {
    let dropped = 0;
    return (why) => {
      dropped += 1;
      if (dropped === 1) this.#options.log.warn({ workspaceId, server: name, why }, "mcp message dropped");
    };
  }

  /** Ends the response to a request that the server did not answer. The client may resume a stream of its session. */
  async #unanswered({ server, reply, session, ending }: Exchange, call: OpenCall, end: RelayEnd): Promise<RelayEnd> {
    if (call.isAnswered) {
      // The response came on another stream of the session.
      reply.beginStream();
      reply.end();
      return "answered";
    }
    if (!reply.hasBegun || session === undefined || ending.signal.aborted) {
      const reason: unknown = ending.signal.aborted
        ? ending.signal.reason
        : upstreamUnavailable(server.name, "closed its stream before the response");
      noteFault(this.#options.log, server, reason);
      call.span?.end(errorTypeOf(reason));
      if (!reply.isOver) await reply.finish(errorFromFault(call.id, reason));
      return "answered";
    }
    reply.end();
    return end;
  }

  #tooLarge(exchange: Exchange, id: RpcId, excess: string, call: OpenCall | undefined): RpcResponse {
    const { server, generation } = exchange;
    // The answer of the server is unknown.
    call?.outcome?.leaveOpen();
    const error = tooLargeError(id, server.name, excess);
    const message = error.error?.message ?? "";
    this.#options.log.warn(
      { workspaceId: server.workspaceId, server: server.name, fault: message },
      "mcp request failed",
    );
    if (call?.method !== "tools/call") return error;
    const text = `${message}. The tool may have run; ask for less at once.`;
    const reasons = [{ code: "RESULT_TOO_LONG", message }];
    return createResult(id, inGeneration(generation, refusal(text, { decision: "allow", reasons })));
  }
}

/** Returns the members of an exchange that belong to a session. */
export function inSession(session: Session, headers: Exchange["headers"]) {
  const { upstreamId, endpoint } = session;
  return {
    generation: "stateful" as const,
    session,
    endpoint,
    headers: upstreamId === undefined ? headers : { ...headers, [SESSION_HEADER]: upstreamId },
  };
}

/** Adds the members that every result of a generation has. */
export function inGeneration(generation: Generation, result: JsonObject): JsonObject {
  return generation === "stateless" ? { resultType: "complete", ...result } : result;
}

/** Returns the members of `_meta` with the version and capabilities of a stateless client. */
export function envelopeOf(params: JsonObject): JsonObject {
  const meta = ownValue(params, "_meta");
  if (!isJsonObject(meta)) return {};
  return Object.fromEntries(Object.entries(meta).filter(([name]) => name.startsWith("io.modelcontextprotocol/")));
}

const LOGGED_FAULTS: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.MCP_UPSTREAM_UNAVAILABLE,
  ErrorReason.STORE_UNAVAILABLE,
]);

/** Logs a fault of a server or of the database, or an unexpected fault. Refusals by the control plane are not logged. */
export function noteFault(log: StoreLog, { workspaceId, name }: McpServer, error: unknown): void {
  const known = error instanceof ControlPlaneError ? error : undefined;
  if (known !== undefined && !LOGGED_FAULTS.has(known.reason)) return;
  const cause = known === undefined ? stackOf(error) : stackOf(known.cause);
  log.warn({ workspaceId, server: name, fault: known?.message, cause }, "mcp request failed");
}

/** Returns an error's stack, or the value as text. */
export const stackOf = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error);
