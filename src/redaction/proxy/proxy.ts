import type { IncomingMessage, ServerResponse } from "node:http";
import type { Registry } from "prom-client";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../../errors.ts";
import type { WorkspaceLogs } from "../../log/workspace-logs.ts";
import type { Authenticator, KeyHolder } from "../../registry/authenticator.ts";
import type { StoreLog } from "../../store/migrate.ts";
import { totalOf } from "../leakage.ts";
import type { Redaction } from "../redaction.ts";
import type { KindCounts } from "../text/types.ts";
import { proxyCaller } from "./caller.ts";
import { createConversations } from "./conversations.ts";
import { answerEvents, answerStreamFor } from "./event-answer.ts";
import { callerGone, type ProxyTarget, sendPiece, sendWhole, targetFrom } from "./exchange.ts";
import { headersDown, headersUp, mediaTypeOf } from "./headers.ts";
import { createProxyMetrics } from "./metrics.ts";
import { openAiErrorFrom } from "./openai-error.ts";
import { llmUnavailable } from "./protocol.ts";
import { type HiddenRequest, hiddenRequest } from "./request.ts";
import type { AnswerOptions } from "./scrub-answer.ts";
import { createUpstream, type Upstream, type UpstreamAnswer, type UpstreamTiming } from "./upstream.ts";
import { wholeAnswer } from "./whole-answer.ts";

/** Serves models under `/api/redact/{workspace_id}/openai/v1` as OpenAI's interface, without personal values. */
export interface RedactionProxy {
  readonly prefix: string;
  /** Answers a request; false for a path that is none of the proxy's. MUST NOT reject. */
  handle(request: IncomingMessage, response: ServerResponse): unknown;
  /** Closes kept connections to the model's service. */
  close(): void;
}

/** What the proxy is built from. */
export interface RedactionProxyOptions {
  readonly redaction: Pick<Redaction, "scrubbers" | "seal">;
  readonly authenticate: Authenticator["authenticate"];
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly log: StoreLog;
  /** Where the proxy counts. */
  readonly metrics: Registry;
  /** Base URL of the model's service, ends in `/v1`; undefined: every request is LLM_NOT_CONFIGURED. */
  readonly llmUrl: string | undefined;
  /** The service's own key for it; undefined: none is sent for callers that bring none. */
  readonly llmKey: string | undefined;
  /** Bytes of a request at most. */
  readonly maxBodyBytes: number;
  /** Default `DEFAULT_UPSTREAM_TIMING`. */
  readonly timing?: UpstreamTiming;
}

const PREFIX = "/api/redact";
const METHODS = ["GET", "POST", "DELETE"];
const EVENT_STREAM = "text/event-stream";

/** One request on its way through. */
interface Passage {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: ProxyTarget;
  readonly signal: AbortSignal;
  readonly holder: KeyHolder;
  readonly hidden: HiddenRequest;
  readonly options: AnswerOptions;
}

/** Frames without the message, which may repeat what a text said. */
function framesOf(error: unknown): string[] {
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  return stack.split("\n").filter((line) => /^\s+at /.test(line));
}

/** Creates the proxy. */
export function createRedactionProxy(proxy: RedactionProxyOptions): RedactionProxy {
  const { redaction, log, llmUrl, llmKey } = proxy;
  const upstream = llmUrl === undefined ? undefined : createUpstream(llmUrl, proxy.timing);
  const conversations = createConversations();
  const metrics = createProxyMetrics(proxy.metrics);

  const upstreamOrThrow = (): Upstream => {
    if (upstream !== undefined) return upstream;
    throw new ControlPlaneError(
      ErrorReason.LLM_NOT_CONFIGURED,
      "`ACP_LLM_URL` is not set, so there is no model to ask",
    );
  };

  const assertMethod = ({ method = "" }: IncomingMessage): void => {
    if (METHODS.includes(method)) return;
    const metadata = { method, allow: METHODS.join(", ") };
    throw new ControlPlaneError(ErrorReason.METHOD_NOT_ALLOWED, `\`${method}\` is not served here`, metadata);
  };

  /** Seals what was leaked, if anything was, and tells of it once the answer has ended. */
  const settle = async ({ response, target, holder, hidden }: Passage, counts: KindCounts): Promise<void> => {
    if (totalOf(counts) === 0) return;
    metrics.leaked(counts);
    const { workspaceId, keyId, agentId } = holder;
    const { model } = hidden;
    const tell = await redaction.seal({ workspaceId, keyId, agentId, counts, path: target.path, model });
    if (response.closed) tell();
    else response.once("close", tell);
  };

  const passWhole = async (passage: Passage, answer: UpstreamAnswer): Promise<void> => {
    const { response, options, hidden } = passage;
    const { contentType, body, leaked, responseId } = await wholeAnswer(options, answer);
    if (responseId !== undefined) hidden.keepFor(responseId);
    await settle(passage, leaked);
    // An upstream may repeat the key that it was asked with.
    const safe = llmKey !== undefined && answer.status >= 400 ? body.replaceAll(llmKey, "***") : body;
    sendWhole(response, answer.status, { ...headersDown(answer.headers), "content-type": contentType }, safe);
  };

  const passEvents = async (passage: Passage, answer: UpstreamAnswer): Promise<void> => {
    const { response, target, options, hidden, request, signal } = passage;
    // Refused before anything is sent, while there still is a status to say so.
    answerStreamFor(target.path, options);
    const own = {
      "content-type": `${EVENT_STREAM}; charset=utf-8`,
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    };
    response.writeHead(answer.status, { ...headersDown(answer.headers), ...own }).flushHeaders();
    const send = (text: string): Promise<void> => sendPiece(response, text);
    const onResponseId = hidden.keepFor;
    const { leaked, rest, fault } = await answerEvents(
      { ...options, path: target.path, send, onResponseId },
      answer.body,
    );
    if (fault !== undefined && !signal.aborted) report(request, fault);
    try {
      await settle(passage, leaked);
    } catch (error) {
      // The answer must not look complete when its leaks are not on record.
      response.destroy();
      throw error;
    }
    response.end(rest);
  };

  const pass = async (passage: Passage, authorization: string | undefined): Promise<void> => {
    const { request, target, hidden, signal } = passage;
    const json = hidden.body === undefined ? {} : { "content-type": "application/json" };
    const answer = await upstreamOrThrow().send({
      ...{ method: request.method ?? "GET", target: target.path + target.query, body: hidden.body, signal },
      headers: { ...headersUp(request.headers, authorization), ...json },
    });
    try {
      if (answer.status >= 300 && answer.status < 400) {
        throw llmUnavailable("the model's service redirected, which is not followed");
      }
      const isStream = answer.status < 300 && mediaTypeOf(answer.headers) === EVENT_STREAM;
      await (isStream ? passEvents(passage, answer) : passWhole(passage, answer));
    } finally {
      answer.body.on("error", () => undefined).destroy();
    }
  };

  const serve = async (request: IncomingMessage, response: ServerResponse, target: ProxyTarget): Promise<void> => {
    const signal = callerGone(response);
    const { workspaceId } = target;
    const { holder, authorization } = await proxyCaller(proxy, request.headers, workspaceId);
    assertMethod(request);
    upstreamOrThrow();
    const { scrubber, settings } = await redaction.scrubbers.of(workspaceId);
    const workspace = { scrubber, settings, keyId: holder.keyId };
    const { maxBodyBytes } = proxy;
    const hidden = await hiddenRequest({ conversations, maxBodyBytes }, request, target, workspace);
    const { restoreValues: restore, allowMedia } = settings;
    const { placeholders, isJson } = hidden;
    const options = { scrubber, placeholders, restore, allowMedia, isJson };
    await pass({ request, response, target, signal, holder, hidden, options }, authorization);
  };

  const report = ({ headers }: IncomingMessage, error: unknown): void => {
    const fault = controlPlaneErrorFrom(error);
    const reason = ErrorReason[fault.reason];
    const { cause } = fault;
    const details = {
      requestId: headers["x-request-id"],
      reason,
      cause: (cause as { code?: string } | undefined)?.code,
    };
    if (fault.reason === ErrorReason.INTERNAL) log.error({ ...details, at: framesOf(cause) }, "redaction failed");
    else if (fault.reason === ErrorReason.LLM_UNAVAILABLE) log.warn(details, fault.message);
  };

  const answerOrError = async (request: IncomingMessage, response: ServerResponse, target: ProxyTarget) => {
    try {
      await serve(request, response, target);
    } catch (error) {
      if (!response.destroyed) report(request, error);
      const { status, body } = openAiErrorFrom(error);
      sendWhole(response, status, { "content-type": "application/json" }, JSON.stringify(body));
    }
    metrics.answered(target.path, response.statusCode);
  };

  return {
    prefix: PREFIX,
    handle(request, response) {
      try {
        const target = targetFrom(request.url ?? "/");
        return target === undefined ? false : answerOrError(request, response, target);
      } catch (error) {
        const { status, body } = openAiErrorFrom(error);
        return sendWhole(response, status, { "content-type": "application/json" }, JSON.stringify(body));
      }
    },
    close: () => upstream?.close(),
  };
}
