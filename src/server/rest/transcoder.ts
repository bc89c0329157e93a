import type { IncomingMessage, ServerResponse } from "node:http";
import type { Message } from "@bufbuild/protobuf";
import type { Call } from "../call-context.ts";
import { cancelled, methodNotAllowed } from "../errors.ts";
import { headerOf, onceClosed, sendJson } from "../http-reply.ts";
import { type Arrival, type IncomingCall, timeoutFromHeader } from "../incoming-call.ts";
import type { Encoded, Pipeline } from "../pipeline.ts";
import { type RequestBounds, requestBoundsOf } from "../request-bounds.ts";
import { JsonReaders, type JsonWriter, JsonWriters } from "./json.ts";
import {
  assertAcceptsJson,
  createRequestReader,
  type RequestReader,
  readJsonBody,
  streamFormatFor,
} from "./request.ts";
import { type Aliases, type Route, type RouteMatch, RouteTable, routesOfServices } from "./routes.ts";
import { openStream, sendStream } from "./stream.ts";

/** Header with the deadline of a REST call, in whole milliseconds. */
export const REQUEST_TIMEOUT_HEADER = "x-request-timeout-ms";

/** Options of a transcoder. */
export interface RestTranscoderOptions {
  /** Executes the calls. Its services and limits are those of the transcoder. */
  readonly pipeline: Pick<Pipeline, "services" | "maxDepth" | "admit" | "unary" | "serverStream">;
  /** Maximum bytes of a request body, except of methods with bounds of their own. */
  readonly maxBodyBytes: number;
  /** Additional templates for a template. Default: none. */
  readonly aliases?: Aliases;
}

/** Serves RPCs as the REST interface that their `google.api.http` options declare. */
export interface RestTranscoder {
  /** Prefixes of every path that it serves, such as `/v1`. */
  readonly prefixes: readonly string[];
  /**
   * Answers a request with a known path, under any HTTP method, and resolves with true. For an unknown path it resolves with
   * false and leaves the request untouched. Rejects with the error to send if the response has not started.
   */
  handle(request: IncomingMessage, response: ServerResponse, arrival: Arrival): Promise<boolean>;
}

/** A route with its compiled codecs. */
interface CompiledRoute extends Route {
  readonly bounds: RequestBounds;
  readonly read: RequestReader;
  readonly write: JsonWriter<Message>;
}

/** A request under a known path, with its response. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly arrival: Arrival;
  readonly match: RouteMatch<CompiledRoute>;
  /** Raw text after the question mark. */
  readonly query: string;
}

/** Creates a transcoder. Throws an `Error` if two RPCs claim one route, and for an unsupported rule or field. */
export function createRestTranscoder(options: RestTranscoderOptions): RestTranscoder {
  return new Transcoder(options);
}

class Transcoder implements RestTranscoder {
  readonly prefixes: readonly string[];
  readonly #pipeline: RestTranscoderOptions["pipeline"];
  readonly #table: RouteTable<CompiledRoute>;

  constructor({ pipeline, maxBodyBytes, aliases = () => [] }: RestTranscoderOptions) {
    const [readers, writers] = [new JsonReaders(), new JsonWriters()];
    const services = pipeline.services.map(({ service }) => service);
    this.#pipeline = pipeline;
    const routes = routesOfServices(services, aliases);
    this.prefixes = [
      ...new Set(routes.map(({ segments: [first] }) => (first?.kind === "literal" ? `/${first.text}` : "/"))),
    ];
    this.#table = new RouteTable(
      routes.map((route) => {
        const bounds = requestBoundsOf(route.method, maxBodyBytes);
        const read = createRequestReader(route, readers, pipeline.maxDepth, bounds);
        return { ...route, bounds, read, write: writers.message(route.method.output) };
      }),
    );
  }

  async handle(request: IncomingMessage, response: ServerResponse, arrival: Arrival): Promise<boolean> {
    const { path, query } = targetFromUrl(request.url ?? "/");
    // HEAD is GET without the body, which Node omits.
    const httpMethod = request.method === "HEAD" ? "GET" : (request.method ?? "");
    const match = this.#table.match(httpMethod, path);
    if (match === undefined) return this.#answerUnrouted(request, response, path);
    const exchange: Exchange = { request, response, arrival, match, query };
    if (match.route.method.methodKind === "unary") await this.#answerUnary(exchange);
    else await this.#answerStream(exchange);
    return true;
  }

  #answerUnrouted(request: IncomingMessage, response: ServerResponse, path: string): boolean {
    const served = this.#table.allowed(path);
    if (served.length === 0) return false;
    const allow = [...served, ...(served.includes("GET") ? ["HEAD"] : []), "OPTIONS"].join(", ");
    if (request.method !== "OPTIONS") throw methodNotAllowed(request.method ?? "", allow);
    response.writeHead(204, { allow }).end();
    return true;
  }

  async #answerUnary(exchange: Exchange): Promise<void> {
    const { request, response, match } = exchange;
    assertAcceptsJson(request.headers.accept);
    const call = await this.#pipeline.admit(match.route.method, incomingFrom(exchange));
    const read = (): Promise<Message> => this.#read(exchange, call);
    const json = await this.#pipeline.unary(call, read, (message) => encoded(match.route.write(message)));
    onceClosed(response, () => call.delivered());
    sendJson(response, 200, json);
  }

  async #answerStream(exchange: Exchange): Promise<void> {
    const { request, response, match } = exchange;
    const format = streamFormatFor(request.headers.accept);
    if (request.method === "HEAD") {
      openStream(response, format);
      response.end();
      return;
    }
    const call = await this.#pipeline.admit(match.route.method, incomingFrom(exchange));
    const messages = await this.#pipeline.serverStream(call, () => this.#read(exchange, call));
    await sendStream({ response, call, format, messages, write: match.route.write });
  }

  async #read({ request, match: { route, captured }, query }: Exchange, call: Call): Promise<Message> {
    const body = await readJsonBody(request, route.bounds, (bytes) => call.hold(bytes));
    await call.giveWay();
    const lastEventId = headerOf(request, "last-event-id");
    return route.read({ body, captured, query, lastEventId, weigh: (weight) => call.weigh(weight) });
  }
}

const encoded = (json: string): Encoded<string> => ({ value: json, bytes: Buffer.byteLength(json) });

function incomingFrom({ request, response, arrival }: Exchange): IncomingCall {
  return {
    wire: "rest",
    ...arrival,
    address: request.socket.remoteAddress,
    header: (name) => headerOf(request, name),
    timeoutMs: () => timeoutFromHeader(REQUEST_TIMEOUT_HEADER, headerOf(request, REQUEST_TIMEOUT_HEADER)),
    onLeave(listener) {
      const leave = () => {
        if (!response.writableEnded) listener(cancelled);
      };
      if (response.destroyed) leave();
      else response.once("close", leave);
    },
  };
}

function targetFromUrl(url: string): { path: string; query: string } {
  const question = url.indexOf("?");
  const end = question < 0 ? url.length : question;
  return { path: url.slice(0, end), query: url.slice(end + 1) };
}
