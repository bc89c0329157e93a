import { randomUUID } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { type JSONRPCMessage, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { type BackOffOptions, createBackOff } from "../async/back-off.ts";
import type { Holder, SharedPot } from "../async/shared-pot.ts";
import { ControlPlaneError } from "../errors.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { StoreLog } from "../store/migrate.ts";
import { type Endpoint, type EndpointRequest, upstreamUnavailable } from "./endpoint.ts";
import { errorFromFault, isRequest, isResponse, RPC_CODES, type RpcId, type RpcMessage } from "./messages.ts";

/** Back-off before an ended child is started again: from a quarter of a second on. */
const BACK_OFF: BackOffOptions = { firstMs: 500, maxMs: 30_000 };
/** Milliseconds of life after which a child's back-off begins again. */
const STABLE_MS = 60_000;
/** Maximum characters of a child's standard error that are logged when it ends. */
const MAX_STDERR = 2_000;
/** Maximum bytes of one message of a child. */
const MAX_MESSAGE_BYTES = 16_777_216;
/** Environment of a child in addition to its configured one. It inherits nothing from this process. */
const ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/nonexistent",
  LOGNAME: "",
  SHELL: "",
  TERM: "",
  USER: "",
};
/** Milliseconds in which a restarted child must answer its client's `initialize`. */
const RESTART_MS = 15_000;
const RESTART_ID = "gateway-restart";

/** Delays the next start of an ended child, with back-off. */
export class RestartDelay {
  readonly #backOff = createBackOff(BACK_OFF);
  #notBefore = 0;

  /** Throws MCP_UPSTREAM_UNAVAILABLE while the server may not be started again. */
  assertOver(server: string): void {
    const waitMs = this.#notBefore - performance.now();
    if (waitMs <= 0) return;
    const seconds = Math.ceil(waitMs / 1000);
    throw upstreamUnavailable(server, `ended unexpectedly and starts again in ${seconds} s at the earliest`);
  }

  /** Records the end of a child. `startedAt` is a time of `performance.now()`. */
  ended(startedAt: number): void {
    if (performance.now() - startedAt > STABLE_MS) this.#backOff.reset();
    this.#notBefore = performance.now() + this.#backOff.next();
  }
}

/**
 * Reads a child's standard error, so that the child does not block. Returns a function that returns its last part, without
 * secrets.
 */
export function standardErrorOf(child: StdioClientTransport, { env }: McpServer): () => string {
  let errors = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    errors = (errors + chunk.toString("utf8")).slice(-MAX_STDERR);
  });
  const without = (rest: string, secret: string) => (secret === "" ? rest : rest.replaceAll(secret, "***"));
  return () => Object.values(env).reduce(without, errors);
}

/** Returns the parameters with which a server's child is started. */
export function childParameters({ command, args, env }: McpServer) {
  const environment = { ...ENVIRONMENT, ...env };
  return {
    command: command ?? "",
    args: [...args],
    env: environment,
    stderr: "pipe" as const,
    maxBufferSize: MAX_MESSAGE_BYTES,
  };
}

/**
 * Endpoint of an upstream server that is a child process and serves one session. The child is started on first use. When it ends,
 * it is started again, with back-off and with the client's own `initialize`.
 */
export class StdioEndpoint implements Endpoint {
  readonly #server: McpServer;
  readonly #log: StoreLog;
  readonly #holder: Holder;
  readonly #children: SharedPot;
  readonly #http: WebStandardStreamableHTTPServerTransport;
  #child: StdioClientTransport | undefined;
  #starting: Promise<StdioClientTransport> | undefined;
  #initialize: (RpcMessage & { readonly params?: JsonObject }) | undefined;
  readonly #restartDelay = new RestartDelay();
  #isClosed = false;
  /** Ids of unanswered requests, in order. */
  readonly #open = new Set<RpcId>();
  #streams = 0;

  constructor(server: McpServer, agentId: string | null, log: StoreLog, children: SharedPot) {
    this.#server = server;
    this.#holder = { workspaceId: server.workspaceId, agentId };
    this.#log = log;
    this.#children = children;
    this.#http = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
    this.#http.onmessage = (message) => void this.#toChild(message as unknown as RpcMessage);
    void this.#http.start();
  }

  async fetch({ method, headers, body, signal }: EndpointRequest): Promise<Response> {
    const init = { method, headers, signal, ...(body === undefined ? {} : { body }) };
    const isStream = method === "GET";
    if (isStream) this.#streams += 1;
    const response = await this.#http.handleRequest(new Request("http://gateway.invalid/mcp", init));
    if (isStream) signal.addEventListener("abort", () => (this.#streams -= 1), { once: true });
    return response;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#http.close().catch(() => undefined);
    const child = this.#child ?? (await this.#starting?.catch(() => undefined));
    await child?.close().catch(() => undefined);
  }

  async #toChild(message: RpcMessage): Promise<void> {
    const request = isRequest(message) ? message : undefined;
    if (request?.method === "initialize") this.#initialize = request;
    if (request !== undefined) this.#open.add(request.id);
    try {
      const child = await this.#running();
      await child.send(message as unknown as JSONRPCMessage);
    } catch (error) {
      if (request === undefined) return;
      if (error instanceof ControlPlaneError) await this.#toClient(errorFromFault(request.id, error));
      else await this.#fail(request.id, error instanceof Error ? error.message : String(error));
    }
  }

  /** Returns the child, and starts it first if necessary. */
  async #running(): Promise<StdioClientTransport> {
    if (this.#child !== undefined) return this.#child;
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #start(): Promise<StdioClientTransport> {
    const { name } = this.#server;
    if (this.#isClosed) throw upstreamUnavailable(name, "is closed");
    this.#restartDelay.assertOver(name);
    return this.#spawn();
  }

  async #spawn(): Promise<StdioClientTransport> {
    const { name } = this.#server;
    const slot = this.#children.take(this.#holder);
    const child = new StdioClientTransport(childParameters(this.#server));
    const startedAt = performance.now();
    const errors = standardErrorOf(child, this.#server);
    const { promise: restarted, resolve: onRestarted } = Promise.withResolvers<void>();
    child.onmessage = (message) => {
      const received = message as unknown as RpcMessage;
      if (isResponse(received) && received.id === RESTART_ID) return onRestarted();
      void this.#toClient(received);
    };
    child.onclose = () => {
      slot.release();
      onRestarted();
      this.#onEnded(child, startedAt, errors());
    };
    try {
      await child.start();
    } catch (error) {
      slot.release();
      this.#restartDelay.ended(startedAt);
      throw upstreamUnavailable(name, "cannot be started; check its command", error);
    }
    this.#child = child;
    const first = this.#initialize;
    const isRestart = first !== undefined && "id" in first && !this.#open.has(first.id);
    if (isRestart) {
      const late = setTimeout(() => void child.close(), RESTART_MS);
      await child.send({ ...first, id: RESTART_ID } as unknown as JSONRPCMessage);
      await restarted;
      clearTimeout(late);
      await child.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    }
    return child;
  }

  #onEnded(child: StdioClientTransport, startedAt: number, stderr: string): void {
    if (this.#child === child) this.#child = undefined;
    if (this.#isClosed) return;
    this.#restartDelay.ended(startedAt);
    const { name, workspaceId } = this.#server;
    this.#log.warn({ workspaceId, server: name, stderr }, "mcp server process ended");
    for (const id of [...this.#open]) void this.#fail(id, `MCP server \`${name}\` ended before it answered`);
  }

  /** Passes a child's message on: a response on the stream of its request, any other message on an open stream. */
  async #toClient(message: RpcMessage): Promise<void> {
    if (isResponse(message)) this.#open.delete(message.id);
    const related = isResponse(message) || this.#streams > 0 ? undefined : [...this.#open].at(-1);
    const options = related === undefined ? {} : { relatedRequestId: related };
    // Nobody listens any more, but the session continues.
    await this.#http.send(message as unknown as JSONRPCMessage, options).catch(() => undefined);
  }

  async #fail(id: RpcId, text: string): Promise<void> {
    await this.#toClient({ jsonrpc: "2.0", id, error: { code: RPC_CODES.server, message: text } });
  }
}
