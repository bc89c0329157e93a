import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import type { DescMethod, DescService, JsonObject, Message } from "@bufbuild/protobuf";
import { pino } from "pino";
import { Registry } from "prom-client";
import { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import type { CallContext } from "../../../src/api/context.ts";
import type { ServiceDefinition } from "../../../src/api/service.ts";
import { createHttpServer } from "../../../src/server/http.ts";
import { Pipeline } from "../../../src/server/pipeline.ts";
import { createRestTranscoder } from "../../../src/server/rest/transcoder.ts";
import { SERVICES } from "../../conformance/methods.ts";
import { plainFromMessage } from "../../support/plain-json.ts";

/** An answer as a test looks at it. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly json: Record<string, unknown>;
  readonly reason: string | undefined;
  /** The field that the error names. */
  readonly field: string | undefined;
}

/** Method and path, `GET /v1/enforce/agents`, and the rest of a request. */
export interface Asked {
  readonly ask: string;
  readonly body?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A call that reached its service function. */
export interface Call {
  readonly rpc: string;
  /** In the plain JSON form. */
  readonly request: JsonObject;
  readonly context: CallContext;
}

/** The HTTP port with every service of the interface behind it, each method of which does what the test says. */
export interface Harness {
  readonly port: number;
  readonly calls: Call[];
  /** Serves unary calls. */
  unary: (call: Call) => Promise<object>;
  /** Serves server streams. */
  stream: (call: Call) => AsyncIterable<object>;
  ask(asked: Asked): Promise<Answer>;
  /** Opens a request and leaves reading the answer to the test. */
  open(path: string, headers?: Record<string, string>): Promise<IncomingMessage>;
  stop(): Promise<void>;
}

export const MAX_BODY_BYTES = 10_000;

/** Serves `/v1` templates under `/api/v1` as well. */
export function apiAliases(template: string): string[] {
  return template.startsWith("/v1/") ? [`/api${template}`] : [];
}

/** Starts a server on a free port. */
export async function startHarness(): Promise<Harness> {
  const calls: Call[] = [];
  const served: Pick<Harness, "unary" | "stream"> = { unary: async () => ({}), stream: async function* () {} };
  const callOf = (method: DescMethod, message: Message, context: CallContext): Call => {
    const call = { rpc: method.name, request: plainFromMessage(method.input, message) as JsonObject, context };
    calls.push(call);
    return call;
  };
  const services = SERVICES.map((service) => definitionOf(service, served, callOf));
  const caller = { keyId: "key_1", workspaceId: "default", role: Role.ADMIN, agentId: null };
  const log = pino({ level: "silent" });
  const metrics = new Registry();
  const pipeline = new Pipeline({ services, authenticate: () => caller, log, metrics });
  const rest = createRestTranscoder({ pipeline, maxBodyBytes: MAX_BODY_BYTES, aliases: apiAliases });
  const maxBodyBytes = MAX_BODY_BYTES;
  const operators = { assertAllowed: async () => undefined };
  const pages = { ready: async () => {}, metrics, operators, openApi: async () => "{}" };
  const server = createHttpServer({ pipeline, rest, extra: [], ...pages, maxBodyBytes, log });
  const port = await server.listen("127.0.0.1", 0);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return Object.assign(served, {
    port,
    calls,
    ask: (asked: Asked) => ask(agent, port, asked),
    open: (path: string, headers: Record<string, string> = {}) => open(port, path, headers),
    async stop() {
      agent.destroy();
      await pipeline.drain(0);
      await server.close(0);
    },
  });
}

function definitionOf(
  service: DescService,
  served: Pick<Harness, "unary" | "stream">,
  callOf: (method: DescMethod, message: Message, context: CallContext) => Call,
): ServiceDefinition {
  const functions = service.methods.map((method) => {
    const serve = method.methodKind === "unary" ? "unary" : "stream";
    const call = (message: Message, context: CallContext) => served[serve](callOf(method, message, context));
    return [method.localName, call] as const;
  });
  return { service, functions: Object.fromEntries(functions) as unknown as ServiceDefinition["functions"] };
}

// The path goes out as it is written, which `fetch` would not do.
function ask(agent: Agent, port: number, { ask, body, headers = {} }: Asked): Promise<Answer> {
  const [method, path] = ask.split(" ");
  const key = { "x-api-key": "k" };
  const type =
    body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const sent = request({ port, method, path, agent, headers: { ...key, ...type, ...headers } }, (response) => {
      readAll(response).then((text) => resolve(answerFrom(response, text)), reject);
    });
    sent.on("error", reject).end(body);
  });
}

function open(port: number, path: string, headers: Record<string, string>): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request({ port, path, headers: { "x-api-key": "k", ...headers }, agent: false }, resolve)
      .on("error", reject)
      .end();
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
  const [info] = json?.error?.details ?? [];
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    json,
    reason: info?.reason,
    field: info?.metadata?.field,
  };
}
