import type { IncomingMessage, ServerResponse } from "node:http";
import { LRUCache } from "lru-cache";
import { type TracePlace, traceContextFrom } from "../../tracing/trace-context.ts";
import { errorTypeOf, type Span, type Tracing } from "../../tracing/tracing.ts";
import { onceClosed } from "./http-messages.ts";
import { operationOf, type ProxyTarget } from "./operations.ts";

/** A question to the model's service, without its contents. */
export interface ModelQuestion {
  readonly target: ProxyTarget;
  /** Base URL of the model's service. */
  readonly url: string;
  /** Null if the request names none, or its name could be a personal value. */
  readonly model: string | null;
  readonly isStream: boolean;
  /** True if the answer is to be a JSON document. */
  readonly isJson: boolean;
}

/** Models that services answered for. Until then the name of a model is any text of a caller, such as a key in the wrong place. */
export class AnsweredModels {
  readonly #names = new LRUCache<string, true>({ maxSize: MAX_ANSWERED, sizeCalculation: () => 1 });

  has({ url, model }: Pick<ModelQuestion, "url" | "model">): boolean {
    return model !== null && this.#names.has(`${url} ${model}`);
  }

  add({ url, model }: Pick<ModelQuestion, "url" | "model">): void {
    if (model !== null) this.#names.set(`${url} ${model}`, true);
  }
}

/** Maximum names of models that are remembered. */
const MAX_ANSWERED = 1_000;

/** Class of the error of a request whose caller left, or lost its right to ask. */
export const CANCELLED = "CANCELLED";

const ROUTE = "/api/redact/{workspace_id}/openai/v1";

/** Spans of one request through the proxy: the request of the caller, and the question to the model's service. */
export class RequestSpans {
  readonly #tracing: Tracing | undefined;
  readonly #models: AnsweredModels;
  readonly #given: TracePlace | undefined;
  readonly #span: Span | undefined;
  #failure: string | undefined;

  /** Begins the span of a request, which ends with its response. */
  constructor(
    tracing: Tracing | undefined,
    models: AnsweredModels,
    { method = "", headers: { traceparent, tracestate } }: IncomingMessage,
    response: ServerResponse,
    target: ProxyTarget,
  ) {
    this.#tracing = tracing;
    this.#models = models;
    this.#given = traceContextFrom(traceparent, tracestate);
    const operation = operationOf(target);
    const route = operation === undefined ? undefined : ROUTE + operation.route;
    const attributes = { "http.request.method": method, "http.route": route };
    const name = route === undefined ? method : `${method} ${route}`;
    this.#span = tracing?.start(name, { kind: "server", parent: this.#given, attributes });
    onceClosed(response, () => this.#end(response));
  }

  /** Place in the trace of what is done for the request. */
  get place(): TracePlace | undefined {
    return this.#span?.isSampled === true ? this.#span : this.#given;
  }

  /** Notes the error that the response tells, or ends with. */
  fail(error: unknown): void {
    this.#failure ??= errorTypeOf(error);
  }

  /** Begins the span of a question; undefined if nothing is recorded. */
  ask(question: ModelQuestion): Span | undefined {
    const { target, url, isStream, isJson } = question;
    const { name = "_OTHER", api } = operationOf(target) ?? {};
    const { hostname, port } = new URL(url);
    const attributes = {
      "gen_ai.operation.name": name,
      "gen_ai.provider.name": "openai",
      "gen_ai.request.stream": isStream ? true : undefined,
      "gen_ai.output.type": isJson ? "json" : undefined,
      "openai.api.type": api,
      "server.address": hostname,
      "server.port": port === "" ? undefined : Number(port),
    };
    const span = this.#tracing?.start(name, { kind: "client", parent: this.place, attributes });
    if (span !== undefined && this.#models.has(question)) nameModel(span, question);
    return span;
  }

  /** Ends the span of a question, with the class of the error if it failed. */
  answered(span: Span | undefined, question: ModelQuestion, failure: string | undefined): void {
    if (failure === undefined && span !== undefined) {
      this.#models.add(question);
      nameModel(span, question);
    }
    span?.end(failure);
  }

  #end({ headersSent, statusCode, writableFinished }: ServerResponse): void {
    if (headersSent) this.#span?.set({ "http.response.status_code": statusCode });
    const left = writableFinished ? undefined : CANCELLED;
    const isFault = !headersSent || statusCode < 400 || statusCode >= 500;
    this.#span?.end(isFault ? (this.#failure ?? left) : undefined);
  }
}

function nameModel(span: Span, { target, model }: ModelQuestion): void {
  if (model === null) return;
  span.rename(`${operationOf(target)?.name} ${model}`);
  span.set({ "gen_ai.request.model": model });
}
