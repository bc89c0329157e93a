import type { IncomingMessage, ServerResponse } from "node:http";
import { LRUCache } from "lru-cache";
import { Counter, type Registry } from "prom-client";
import { type Portion, potSizeFor, SharedPot } from "../../async/shared-pot.ts";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason, overShare } from "../../errors.ts";
import type { WorkspaceLogs } from "../../log/workspace-logs.ts";
import type { Authenticator } from "../../registry/authenticator.ts";
import type { StoreLog } from "../../store/migrate.ts";
import { type KindCounts, totalCount } from "../../text/personal-kinds.ts";
import { traceHeaderOf } from "../../tracing/trace-context.ts";
import { errorTypeOf, type Span, type Tracing } from "../../tracing/tracing.ts";
import type { Redaction } from "../redaction.ts";
import type { RedactionSettings } from "../settings.ts";
import { compileSecretScrubber } from "../text/scrubber.ts";
import {
  assertKeyFor,
  authenticateCaller,
  countedIfWrongKey,
  type ProxyCaller,
  type WrongKeyCounter,
  watchCaller,
} from "./caller.ts";
import { Conversations } from "./conversations.ts";
import { createEventScrubber, pipeEvents } from "./event-response.ts";
import { type HiddenRequest, readHiddenRequest } from "./hide-request.ts";
import {
  disconnectSignal,
  mediaTypeOf,
  onceClosed,
  openAiErrorFrom,
  requestHeaders,
  responseHeaders,
  sendResponse,
  writeChunk,
} from "./http-messages.ts";
import { assertServed, type ProxyTarget, parseTarget } from "./operations.ts";
import { llmUnavailable } from "./protocol.ts";
import { KEY_MASK } from "./response-text.ts";
import type { ResponseOptions } from "./scrub-response.ts";
import { AnsweredModels, CANCELLED, RequestSpans } from "./spans.ts";
import { OWN_OBJECTS } from "./stored-objects.ts";
import { createUpstream, type Upstream, type UpstreamResponse, type UpstreamTiming } from "./upstream.ts";
import { MAX_RESPONSE_BYTES, readWholeResponse } from "./whole-response.ts";

/** Serves OpenAI's API under `/api/redact/{workspace_id}/openai/v1` and removes personal values from requests and responses. */
export interface RedactionProxy {
  readonly prefix: string;
  /** Serves a request; returns false for a path that is not the proxy's. MUST NOT reject. */
  handle(request: IncomingMessage, response: ServerResponse): unknown;
  /** Closes idle connections to the model's service and forgets all conversations. */
  close(): void;
}

/** Parts and settings of the proxy. */
export interface RedactionProxyOptions {
  readonly redaction: Pick<Redaction, "scrubbers" | "seal" | "storedObjects" | "targets">;
  readonly authenticate: Authenticator["authenticate"];
  readonly wrongKeys: WrongKeyCounter;
  /** Called with each request that fails, and its error. Default: nothing is called. */
  readonly noteRefusal?: (request: IncomingMessage, method: string, error: unknown) => void;
  /** Counts a call before its body is read. Throws RATE_LIMITED. */
  readonly countCall: (caller: { readonly workspaceId: string; readonly keyId: string }) => Promise<void> | undefined;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly log: StoreLog;
  readonly metrics: Registry;
  /** Records every request and every question to a model's service as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
  /** Base URL of the model's service, ending in `/v1`. If undefined, every request fails with LLM_NOT_CONFIGURED. */
  readonly llmUrl: string | undefined;
  /** This service's own key for the model's service, sent for callers without a key of their own. */
  readonly llmKey: string | undefined;
  /** Maximum bytes of a request. */
  readonly maxBodyBytes: number;
  /** Bytes of the bodies of requests in flight that workspaces share. Default `MAX_HELD_BYTES`, or eight of the largest bodies. */
  readonly maxHeldBytes?: number;
  /** Bytes of answers that workspaces share. Default `MAX_ANSWER_BYTES`. */
  readonly maxAnswerBytes?: number;
  /** Default `DEFAULT_UPSTREAM_TIMING`. */
  readonly timing?: UpstreamTiming;
}

const PREFIX = "/api/redact";
/** Maximum model services of workspaces whose connections are kept. Connections of a forgotten service end when they are idle. */
const MAX_OWN_UPSTREAMS = 256;
/**
 * Bytes of all bodies in flight, of which one workspace alone holds half. A body is held three times: as text, as JSON and in its
 * hidden form.
 */
const MAX_HELD_BYTES = 134_217_728;
/** Bytes that each request counts besides its body. */
const REQUEST_OVERHEAD = 4_096;
/** Bytes of all answers that are read, scrubbed or not yet sent. */
const MAX_ANSWER_BYTES = potSizeFor(MAX_RESPONSE_BYTES);
const EVENT_STREAM = "text/event-stream";
const EVENT_HEADERS = {
  "content-type": `${EVENT_STREAM}; charset=utf-8`,
  "cache-control": "no-cache",
  "x-accel-buffering": "no",
};
/** Paths below `/v1` that are counted by name; other paths are counted as `other`. */
const COUNTED_PATHS = ["/chat/completions", "/responses", "/embeddings", "/models"];

/** One request through the proxy, from the hidden request to the scrubbed response. */
interface ProxyExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: ProxyTarget;
  readonly signal: AbortSignal;
  /** Aborts with an error when the caller loses its right to ask. */
  readonly callerEnd: AbortSignal;
  readonly caller: ProxyCaller;
  /** Our key for the model's service, which is masked in every response. */
  readonly llmKey: string | undefined;
  readonly hidden: HiddenRequest;
  /** Portion of the bytes of answers. */
  readonly answer: Portion;
  readonly options: ResponseOptions;
  readonly spans: RequestSpans;
  /** Base URL of the model's service. */
  readonly url: string;
}

/** Creates the proxy. */
export function createRedactionProxy(options: RedactionProxyOptions): RedactionProxy {
  return new OpenAiProxy(options);
}

class OpenAiProxy implements RedactionProxy {
  readonly prefix: string = PREFIX;
  readonly #options: RedactionProxyOptions;
  readonly #upstream: Upstream | undefined;
  readonly #ownUpstreams = new LRUCache<string, Upstream>({ max: MAX_OWN_UPSTREAMS });
  readonly #conversations = new Conversations();
  readonly #models = new AnsweredModels();
  readonly #requests: Counter;
  readonly #leaks: Counter;
  /** Bytes of the bodies of the requests in flight. */
  readonly #held: SharedPot;
  /** Bytes of the answers that are read and scrubbed, and not yet sent. */
  readonly #answers: SharedPot;

  constructor(options: RedactionProxyOptions) {
    const { llmUrl, timing, metrics } = options;
    this.#options = options;
    this.#held = new SharedPot({
      name: "proxy_bytes",
      size: options.maxHeldBytes ?? potSizeFor(options.maxBodyBytes, MAX_HELD_BYTES),
      unit: "bytes of requests to models",
      advice: "send less at once",
      retryAfterSeconds: 1,
      refuse: overShare,
    });
    this.#answers = new SharedPot({
      name: "proxy_answer_bytes",
      size: options.maxAnswerBytes ?? MAX_ANSWER_BYTES,
      unit: "bytes of answers of models",
      advice: "the request has reached the model; read what was answered, or ask for streams or less at once",
      retryAfterSeconds: 1,
      refuse: overShare,
    });
    this.#upstream = llmUrl === undefined ? undefined : createUpstream(llmUrl, timing);
    this.#requests = new Counter({
      name: "acp_redaction_requests_total",
      help: "Requests to the redaction proxy, by path and by the status of the response.",
      labelNames: ["path", "status"],
      registers: [metrics],
    });
    this.#leaks = new Counter({
      name: "acp_redaction_leaked_total",
      help: "Personal values that were scrubbed from responses of models, by kind.",
      labelNames: ["kind"],
      registers: [metrics],
    });
  }

  handle(request: IncomingMessage, response: ServerResponse): unknown {
    try {
      const target = parseTarget(request.url ?? "/");
      return target === undefined ? false : this.#serve(request, response, target);
    } catch (error) {
      return sendError(response, error);
    }
  }

  close(): void {
    this.#upstream?.close();
    for (const upstream of this.#ownUpstreams.values()) upstream.close();
    this.#conversations.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse, target: ProxyTarget): Promise<void> {
    const spans = new RequestSpans(this.#options.tracing, this.#models, request, response, target);
    try {
      await this.#exchange(request, response, target, spans);
    } catch (error) {
      if (!response.destroyed) {
        spans.fail(error);
        this.#report(request, error);
      }
      this.#options.noteRefusal?.(request, PREFIX, error);
      // The rest of a refused body is read and dropped, so that the caller can read the response.
      request.resume();
      sendError(response, error);
    }
    const path = COUNTED_PATHS.includes(target.path) ? target.path : "other";
    this.#requests.inc({ path, status: response.statusCode });
  }

  async #exchange(
    request: IncomingMessage,
    response: ServerResponse,
    target: ProxyTarget,
    spans: RequestSpans,
  ): Promise<void> {
    const check = () => authenticateCaller(this.#options, request.headers, target.workspaceId);
    const caller = await check().catch((error: unknown) => {
      throw countedIfWrongKey(error, request, this.#options.wrongKeys);
    });
    await this.#options.countCall(caller.holder);
    assertServed(request.method ?? "", target);
    const watch = watchCaller(check);
    try {
      await this.#held.during(caller.holder, (held) => {
        held.add(REQUEST_OVERHEAD);
        return this.#exchangeAs(caller, watch.signal, request, response, target, spans, held);
      });
    } catch (error) {
      throw watch.signal.aborted ? watch.signal.reason : error;
    } finally {
      watch.stop();
    }
  }

  async #exchangeAs(
    caller: ProxyCaller,
    callerEnd: AbortSignal,
    request: IncomingMessage,
    response: ServerResponse,
    target: ProxyTarget,
    spans: RequestSpans,
    held: Portion,
  ): Promise<void> {
    const signal = AbortSignal.any([disconnectSignal(response), callerEnd]);
    const { workspaceId } = target;
    const { redaction } = this.#options;
    const { scrubber, settings } = await redaction.scrubbers.of(workspaceId);
    const { upstream, llmKey, url } = await this.#upstreamFor(settings);
    if (caller.isOwnAccount) assertKeyFor(request.headers, url, this.#options.llmUrl);
    const objects = caller.isOwnAccount ? OWN_OBJECTS : await redaction.storedObjects(workspaceId);
    const hold = (bytes: number): void => held.add(bytes);
    const context = { conversations: this.#conversations, maxBodyBytes: this.#options.maxBodyBytes, hold };
    const { keyId, agentId } = caller.holder;
    const workspace = { scrubber, settings, keyId, agentId, objects };
    const hidden = await readHiddenRequest(context, request, target, workspace);
    const { restoreValues: restore, allowMedia } = settings;
    const { placeholders, isJson } = hidden;
    const markIds = target.path === "/responses" ? objects.mark : OWN_OBJECTS.mark;
    const options = { scrubber, placeholders, restore, allowMedia, isJson, markIds, llmKey: keyScrubber(llmKey) };
    const answer = this.#answers.open(caller.holder);
    try {
      const given = {
        request,
        response,
        target,
        signal,
        callerEnd,
        caller,
        hidden,
        options,
        llmKey,
        answer,
        spans,
        url,
      };
      await this.#ask(upstream, given);
      // The caller may read the answer slowly.
      onceClosed(response, () => answer.release());
    } catch (error) {
      answer.release();
      throw error;
    } finally {
      hidden.end();
    }
  }

  /** Asks the model's service in a span. */
  async #ask(upstream: Upstream, exchange: ProxyExchange): Promise<void> {
    const { spans, target, url, hidden, signal } = exchange;
    const question = { ...hidden, target, url };
    const span = spans.ask(question);
    try {
      const failure = await this.#forward(upstream, exchange, span);
      spans.answered(span, question, signal.aborted ? CANCELLED : failure);
    } catch (error) {
      spans.answered(span, question, signal.aborted ? CANCELLED : errorTypeOf(error));
      throw error;
    }
  }

  /** Passes a request and its response on. Resolves with the class of the error that the response tells. */
  async #forward(upstream: Upstream, exchange: ProxyExchange, span: Span | undefined): Promise<string | undefined> {
    const { request, target, hidden, signal, caller, llmKey, spans } = exchange;
    const place = span?.isSampled === true ? span : spans.place;
    // The authorization belongs to the account that is asked; the key of the shared account goes nowhere else.
    const authorization = caller.isOwnAccount ? caller.authorization : llmKey && `Bearer ${llmKey}`;
    const json = hidden.body === undefined ? {} : { "content-type": "application/json" };
    const received = await upstream.send({
      method: request.method ?? "GET",
      target: target.path,
      body: hidden.body,
      signal,
      headers: { ...requestHeaders(request.headers, { ...caller, authorization }), ...json, ...traceHeaderOf(place) },
    });
    span?.set({ "http.response.status_code": received.status });
    try {
      if (received.status >= 300 && received.status < 400) {
        throw llmUnavailable("the model's service sent a redirect, and redirects are not followed");
      }
      if (!caller.isOwnAccount && (received.status === 401 || received.status === 403)) {
        // The response's text may contain the key and the account.
        throw llmUnavailable(
          "the model's service refused our key; set `ACP_LLM_KEY`, or `llm_key` in the settings, to a valid key",
        );
      }
      const isStream = received.status < 300 && mediaTypeOf(received.headers) === EVENT_STREAM;
      const fault = await (isStream ? this.#respondEvents(exchange, received) : this.#respondWhole(exchange, received));
      if (fault !== undefined) return errorTypeOf(fault);
      return received.status >= 400 ? String(received.status) : undefined;
    } finally {
      received.body.on("error", () => undefined).destroy();
    }
  }

  async #respondWhole(exchange: ProxyExchange, received: UpstreamResponse): Promise<void> {
    const { response, options, hidden, llmKey } = exchange;
    const { contentType, body, leaked, responseId } = await readWholeResponse(options, received, (bytes) =>
      exchange.answer.add(bytes),
    );
    if (responseId !== undefined) hidden.keepFor(responseId);
    await this.#recordLeaks(exchange, leaked);
    const headers = { ...responseHeaders(received.headers, llmKey, options.scrubber), "content-type": contentType };
    sendResponse(response, received.status, headers, withoutKey(llmKey, body));
  }

  /** Passes a stream on. Resolves with the fault that it ended with. */
  async #respondEvents(exchange: ProxyExchange, received: UpstreamResponse): Promise<unknown> {
    const { response, target, options, hidden, request, signal, callerEnd, llmKey } = exchange;
    // Refuses unknown events before anything is sent, while the status can still be an error.
    createEventScrubber(target.path, options);
    const headers = responseHeaders(received.headers, llmKey, options.scrubber);
    response.writeHead(received.status, { ...headers, ...EVENT_HEADERS }).flushHeaders();
    const send = (text: string): Promise<void> => writeChunk(response, withoutKey(llmKey, text));
    const { answer: held } = exchange;
    const piping = { ...options, path: target.path, send, onResponseId: hidden.keepFor, callerEnd, held };
    const { leaked, rest, fault } = await pipeEvents(piping, received.body);
    if (fault !== undefined && !signal.aborted) {
      exchange.spans.fail(fault);
      this.#report(request, fault);
    }
    try {
      await this.#recordLeaks(exchange, leaked);
    } catch (error) {
      // The response must not look complete if its leaks are not recorded.
      response.destroy();
      throw error;
    }
    response.end(withoutKey(llmKey, rest));
    return fault;
  }

  /** Counts and seals leaks, and sends the notices once the response has ended. */
  async #recordLeaks({ response, target, caller, hidden, spans }: ProxyExchange, counts: KindCounts): Promise<void> {
    if (totalCount(counts) === 0) return;
    for (const [kind, count] of counts) this.#leaks.inc({ kind }, count);
    const { workspaceId, keyId, agentId } = caller.holder;
    const leakage = { workspaceId, keyId, agentId, counts, path: target.path, model: hidden.model, trace: spans.place };
    const sendNotices = await this.#options.redaction.seal(leakage);
    onceClosed(response, sendNotices);
  }

  /** Returns the model's service of a workspace and our key for it: the workspace's own, or the shared service. */
  async #upstreamFor({ llmUrl, llmKey }: RedactionSettings): Promise<ModelAccount> {
    if (llmUrl === undefined) {
      const { llmUrl: url, llmKey: sharedKey } = this.#options;
      if (this.#upstream !== undefined && url !== undefined)
        return { upstream: this.#upstream, llmKey: sharedKey, url };
      const message = "there is no model to ask: set `ACP_LLM_URL`, or `llm_url` in the workspace's redaction settings";
      throw new ControlPlaneError(ErrorReason.LLM_NOT_CONFIGURED, message);
    }
    const known = this.#ownUpstreams.get(llmUrl);
    if (known !== undefined) return { upstream: known, llmKey, url: llmUrl };
    const { redaction, timing } = this.#options;
    // An IP address in the URL is not looked up at connection time, so it is checked here.
    await redaction.targets.check(llmUrl, "llm_url");
    const upstream = createUpstream(llmUrl, timing, redaction.targets.lookup);
    this.#ownUpstreams.set(llmUrl, upstream);
    return { upstream, llmKey, url: llmUrl };
  }

  #report({ headers }: IncomingMessage, error: unknown): void {
    const { log } = this.#options;
    const { reason, cause, message } = controlPlaneErrorFrom(error);
    const code = (cause as { code?: string } | undefined)?.code;
    const details = { requestId: headers["x-request-id"], reason: ErrorReason[reason], cause: code };
    const isFault = reason === ErrorReason.INTERNAL || reason === ErrorReason.STORE_UNAVAILABLE;
    if (isFault) log.error({ ...details, at: stackFrames(cause) }, "redaction failed");
    else if (reason === ErrorReason.LLM_UNAVAILABLE) log.warn(details, message);
  }
}

/** A model's service and our key for it. */
interface ModelAccount {
  readonly upstream: Upstream;
  /** Base URL of the service. */
  readonly url: string;
  readonly llmKey: string | undefined;
}

/** Creates the scrubber of our key in the texts of a response, also across events. A key of one character cannot be split. */
const keyScrubber = (llmKey = ""): ResponseOptions["llmKey"] =>
  llmKey.length < 2 ? undefined : compileSecretScrubber(llmKey);

/** Masks our key for the model's service in other parts of JSON, such as names and ids. */
const withoutKey = (llmKey: string | undefined, json: string): string =>
  llmKey === undefined ? json : json.replaceAll(JSON.stringify(llmKey).slice(1, -1), KEY_MASK);

function sendError(response: ServerResponse, error: unknown): void {
  const { status, body, headers } = openAiErrorFrom(error);
  sendResponse(response, status, { ...headers, "content-type": "application/json" }, JSON.stringify(body));
}

/** Returns the frames of a stack without the error's message, which may quote a text. */
function stackFrames(error: unknown): string[] {
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  return stack.split("\n").filter((line) => /^\s+at /.test(line));
}
