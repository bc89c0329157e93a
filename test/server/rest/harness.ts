import { Agent, createServer, type IncomingHttpHeaders, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { create, type Message } from "@bufbuild/protobuf";
import { controlPlaneErrorFrom, ErrorReason, httpStatusFromReason } from "../../../src/errors.ts";
import type { RestCall, RestDispatcher } from "../../../src/server/rest/call.ts";
import {
  createRestTranscoder,
  type RestRequestInfo,
  type RestTranscoder,
  type RestTranscoderOptions,
} from "../../../src/server/rest/transcoder.ts";
import { library } from "./descriptors.ts";

/** A message whose fields a test reads by name. */
export type AnyMessage = Message & Record<string, unknown>;

/** An answer as a test looks at it. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly json: Record<string, unknown>;
  readonly reason: string | undefined;
  readonly field: string | undefined;
}

/** What a request is made of besides method and path. */
export interface Asked {
  readonly body?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A running HTTP server with a transcoder of the library. */
export interface Harness {
  readonly port: number;
  readonly transcoder: RestTranscoder;
  readonly calls: RestCall[];
  readonly infos: RestRequestInfo[];
  dispatcher: RestDispatcher;
  ask(method: string, path: string, asked?: Asked): Promise<Answer>;
  /** The request message that an answered call carried. */
  lastRequest(): AnyMessage;
  stop(): Promise<void>;
}

/** Echoes requests: the same message where the types agree, else an empty response. */
export const echo: RestDispatcher = {
  async unary({ method, request: message }) {
    if (method.input === method.output) return message;
    return create(method.output, method.name === "UpdateBook" ? { book: (message as AnyMessage).book } : {});
  },
  async *serverStream() {},
};

/** An error as the tests' servers answer it. */
export function errorBody(thrown: unknown): { status: number; body: object } {
  const error = controlPlaneErrorFrom(thrown);
  const { message, metadata } = error;
  return {
    status: httpStatusFromReason(error.reason),
    body: { ok: false, error: { reason: ErrorReason[error.reason], message, metadata } },
  };
}

/** Serves `/v1` templates under `/api/v1` as well. */
export function apiAliases(template: string): string[] {
  return template.startsWith("/v1/") ? [`/api${template}`] : [];
}

/** Starts a server on a free port. */
export async function startHarness(options: Partial<RestTranscoderOptions> = {}): Promise<Harness> {
  const { service, registry } = library();
  const calls: RestCall[] = [];
  const infos: RestRequestInfo[] = [];
  const harness = { dispatcher: echo };
  const keep = (call: RestCall) => {
    calls.push(call);
    return call;
  };
  const transcoder = createRestTranscoder({
    services: [service],
    registry,
    dispatcher: {
      unary: (call) => harness.dispatcher.unary(keep(call)),
      serverStream: (call) => harness.dispatcher.serverStream(keep(call)),
    },
    errorBody,
    maxBodyBytes: 10_000,
    aliases: apiAliases,
    onRequest: (info) => infos.push(info),
    ...options,
  });
  const server = createServer(async (req, res) => {
    if (!(await transcoder.handle(req, res))) transcoder.notFound(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(harness, {
    port,
    transcoder,
    calls,
    infos,
    ask: (method: string, path: string, asked: Asked = {}) => ask(port, method, path, asked),
    lastRequest: () => calls.at(-1)?.request as AnyMessage,
    stop: () => stop(server),
  });
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

/** Opens a request and leaves reading the answer to the caller. */
export function open(
  port: number,
  method: string,
  path: string,
  headers: Record<string, string> = {},
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request({ port, method, path, headers, agent: false }, resolve).on("error", reject).end();
  });
}

function ask(port: number, method: string, path: string, { body, headers = {} }: Asked): Promise<Answer> {
  const type =
    body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const sent = request({ port, method, path, agent, headers: { ...type, ...headers } }, (response) => {
      readAll(response).then((text) => resolve(answerFrom(response, text)), reject);
    });
    sent.on("error", reject).end(body);
  });
}

/** Reads a response to its end. */
export async function readAll(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function answerFrom(response: IncomingMessage, text: string): Answer {
  const isJson = response.headers["content-type"] === "application/json" && text !== "";
  const json = isJson ? JSON.parse(text) : undefined;
  const error = json?.error;
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    json,
    reason: error?.reason,
    field: error?.metadata?.field,
  };
}

async function stop(server: Server): Promise<void> {
  agent.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
