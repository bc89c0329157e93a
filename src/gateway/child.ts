import type { JsonObject } from "@bufbuild/protobuf";
import type { Portion } from "../async/shared-pot.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { StoreLog } from "../store/migrate.ts";
import { asNotRun } from "./call-end.ts";
import type { ChildIsolation } from "./child-isolation.ts";
import { ChildProcess } from "./child-process.ts";
import { ChildSessionState } from "./child-session-state.ts";
import { upstreamUnavailable } from "./endpoint.ts";
import {
  createError,
  createResult,
  errorFromFault,
  isRequest,
  isResponse,
  RPC_CODES,
  type RpcId,
  type RpcMessage,
  type RpcNotification,
  type RpcRequest,
  type RpcResponse,
} from "./messages.ts";
import type { RestartDelay } from "./restart-delay.ts";

/** One session of a child. */
export interface ChildClient {
  /**
   * Receives a message of the child, and every response to a request of this session. `related` is the open request whose progress
   * is reported.
   */
  receive(message: RpcMessage, related: RpcId | undefined): void;
}

/** Parts of `Child`. */
export interface ChildOptions {
  readonly server: McpServer;
  /** Parameters of the `initialize` that all its sessions have sent. */
  readonly initialize: JsonObject | undefined;
  /** True if the child serves several sessions. They have declared that they answer no request of a server. */
  readonly isShared: boolean;
  readonly isolation: Pick<ChildIsolation, "enter">;
  readonly restartDelay: RestartDelay;
  /** Takes a slot for a process. Resolves with the function that releases it. Rejects if no slot is free. */
  readonly takeSlot: () => Promise<() => void>;
  /** Opens the portion of the bytes that are being read from a process. */
  readonly openHeld: () => Portion;
  readonly log: StoreLog;
}

/** A request of a session that the child has not answered. */
interface OpenRequest {
  readonly client: ChildClient;
  readonly request: RpcRequest;
  /** The process that it was sent to. */
  run: Run | undefined;
  /** True once its session awaits no response. The child MAY still send it. */
  isLeft: boolean;
}

/** A process, from its start to its end. */
interface Run {
  readonly startedAt: number;
  process: ChildProcess | undefined;
  /** Requests of this class itself. */
  readonly asked: Map<number, PromiseWithResolvers<RpcResponse>>;
  /** The child's response to `initialize`. */
  answer: RpcResponse | undefined;
  /** True once the process was sent `notifications/initialized`. */
  isInitialized: boolean;
  /** True if the process was ended because it is not needed. */
  isStopped: boolean;
  hasEnded: boolean;
}

/** Milliseconds in which a child must answer `initialize`: a command may download its program first. */
const INITIALIZE_MS = 120_000;
/** Maximum tokens of answered requests, whose tasks may still report progress. */
const MAX_TOKENS = 1_000;

/**
 * A child process with the sessions that share it. Each session has its own ids, progress tokens and responses; notifications go to
 * all. The process ends when no session has used it for a while, and the next request starts it again. A request is sent at most
 * once.
 */
export class Child {
  readonly #options: ChildOptions;
  readonly #clients = new Set<ChildClient>();
  /** Sessions that have sent `notifications/initialized`. */
  readonly #initialized = new Set<ChildClient>();
  readonly #open = new Map<number, OpenRequest>();
  /** Progress tokens of sessions, by those that the child knows. */
  readonly #tokens = new Map<number, { readonly client: ChildClient; readonly token: string | number }>();
  readonly #state = new ChildSessionState<ChildClient>();
  readonly #ending = new Set<Promise<void>>();
  #nextId = 1;
  #run: Run | undefined;
  #starting: Promise<Run> | undefined;
  #streams = 0;
  #idle: NodeJS.Timeout | undefined;
  #idleSinceMs = 0;
  #isClosed = false;

  constructor(options: ChildOptions) {
    this.#options = options;
  }

  /** Adds a session. */
  join(client: ChildClient): void {
    this.#clients.add(client);
  }

  /** True while the process runs and nothing uses it: no call is open, and no stream. */
  get isIdle(): boolean {
    return this.#run?.answer !== undefined && !this.#isUsed;
  }

  /** Monotonic milliseconds at which the last use ended. */
  get idleSinceMs(): number {
    return this.#idleSinceMs;
  }

  /** True while no session has joined. */
  get isUnused(): boolean {
    return this.#clients.size === 0;
  }

  /** Removes a session, and cancels its requests. MUST NOT reject. */
  leave(client: ChildClient): void {
    if (!this.#clients.delete(client)) return;
    this.#initialized.delete(client);
    for (const [id, open] of this.#open) if (open.client === client) this.#cancel(id, open, {});
    for (const [token, { client: owner }] of this.#tokens) if (owner === client) this.#tokens.delete(token);
    for (const uri of this.#state.leave(client)) this.#tell({ method: "resources/unsubscribe", params: { uri } });
    this.#restIfUnused();
  }

  /** Keeps the process while a session's stream is open. Returns the function that ends this. */
  holdStream(): () => void {
    this.#streams += 1;
    this.#restIfUnused();
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.#streams -= 1;
      this.#restIfUnused();
    };
  }

  /**
   * Sends a session's message. The response to a request comes through `receive`, also if the child fails. `signal` aborts when
   * the session awaits no response any more. MUST NOT reject.
   */
  async send(client: ChildClient, message: RpcMessage, signal?: AbortSignal): Promise<void> {
    if (isRequest(message)) return this.#request(client, message, signal);
    if (isResponse(message)) {
      // The child has asked nothing of sessions that share it.
      if (!this.#options.isShared) await this.#pass(message);
      return;
    }
    if (message.method === "notifications/cancelled") return this.#cancelOf(client, message);
    if (message.method !== "notifications/initialized") return this.#pass(message);
    this.#initialized.add(client);
    await this.#confirm(this.#run);
  }

  /** Ends the process for good, and resolves once everything that it used is free. MUST NOT reject. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.rest();
    await this.#starting?.catch(() => undefined);
    await this.#ended();
  }

  /** Ends the process until the next request, and resolves once everything that it used is free. MUST NOT reject. */
  async rest(): Promise<void> {
    clearTimeout(this.#idle);
    this.#stop();
    await this.#ended();
  }

  async #ended(): Promise<void> {
    while (this.#ending.size > 0) await Promise.all(this.#ending);
  }

  async #request(client: ChildClient, request: RpcRequest, signal: AbortSignal | undefined): Promise<void> {
    if (this.#isOfOthersToo(client, request)) return client.receive(createResult(request.id, {}), undefined);
    const id = this.#nextId++;
    const open: OpenRequest = { client, request, run: undefined, isLeft: false };
    this.#open.set(id, open);
    this.#restIfUnused();
    const leave = (): void => {
      open.isLeft = true;
      this.#restIfUnused();
    };
    signal?.addEventListener("abort", leave, { once: true });
    try {
      const run = await this.#running(request.method !== "initialize");
      if (request.method === "initialize") return this.#answer(id, run.answer as RpcResponse);
      // Cancelled meanwhile.
      if (!this.#open.has(id)) return;
      if (this.#initialized.has(client)) await this.#confirm(run);
      open.run = run;
      if (run.hasEnded) throw upstreamUnavailable(this.#options.server.name, "ended before it answered");
      // The end of the process answers a request that cannot be sent.
      await run.process?.send(this.#rewritten(id, open)).catch(() => undefined);
    } catch (error) {
      this.#answer(id, errorFromFault(id, asNotRun(error)));
    } finally {
      if (!this.#open.has(id)) signal?.removeEventListener("abort", leave);
    }
  }

  /** Tests whether a request ends a subscription that another session needs. The session's own part of it ends. */
  #isOfOthersToo(client: ChildClient, { method, params = {} }: RpcRequest): boolean {
    const uri = ownValue(params, "uri");
    if (method !== "resources/unsubscribe" || typeof uri !== "string") return false;
    if (!this.#state.isNeededByOthers(client, uri)) return false;
    this.#state.record(client, method, params);
    return true;
  }

  /** Gives a session's request an id, a progress token and a log level that suit all sessions. */
  #rewritten(id: number, { client, request }: OpenRequest): RpcRequest {
    if (request.params === undefined) return { ...request, id };
    let params = request.params;
    const meta = ownValue(params, "_meta");
    const token = isJsonObject(meta) ? ownValue(meta, "progressToken") : undefined;
    if (isJsonObject(meta) && (typeof token === "string" || typeof token === "number")) {
      this.#tokens.set(id, { client, token });
      params = { ...params, _meta: { ...meta, progressToken: id } };
    }
    const level = ownValue(params, "level");
    if (request.method === "logging/setLevel" && typeof level === "string")
      params = { ...params, level: this.#state.levelWith(client, level) };
    return { ...request, id, params };
  }

  /** Passes a response on to the session that asked. */
  #answer(id: number, response: RpcResponse): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    const { client, request } = open;
    if (response.error === undefined) this.#state.record(client, request.method, request.params ?? {});
    // The task that a request has made still reports progress.
    if (!isJsonObject(ownValue(response.result ?? {}, "task"))) this.#tokens.delete(id);
    else if (this.#tokens.size > MAX_TOKENS) this.#tokens.delete([...this.#tokens.keys()][0] ?? 0);
    client.receive({ ...response, id: request.id }, undefined);
    this.#restIfUnused();
  }

  #cancelOf(client: ChildClient, { params = {} }: RpcNotification): void {
    const requestId = ownValue(params, "requestId");
    for (const [id, open] of this.#open) {
      if (open.client === client && open.request.id === requestId) this.#cancel(id, open, params);
    }
  }

  #cancel(id: number, open: OpenRequest, params: JsonObject): void {
    open.isLeft = true;
    if (open.run === undefined) this.#open.delete(id);
    else {
      const cancelled = { ...params, requestId: id };
      const message = { jsonrpc: "2.0", method: "notifications/cancelled", params: cancelled } as const;
      void open.run.process?.send(message).catch(() => undefined);
    }
    this.#restIfUnused();
  }

  /** Passes a message on that belongs to the present process. It is dropped if there is none. */
  async #pass(message: RpcMessage): Promise<void> {
    await this.#run?.process?.send(message).catch(() => undefined);
  }

  /** Sends a request of this class itself, whose response is of no interest. */
  #tell({ method, params }: { readonly method: string; readonly params: JsonObject }): void {
    void this.#pass({ jsonrpc: "2.0", id: this.#nextId++, method, params });
  }

  /** Sends `notifications/initialized` once to each process. */
  async #confirm(run: Run | undefined): Promise<void> {
    if (run === undefined || run.isInitialized || run.answer === undefined) return;
    run.isInitialized = true;
    await run.process?.send({ jsonrpc: "2.0", method: "notifications/initialized" }).catch(() => undefined);
  }

  /** Returns the running process, and starts it first if necessary. `isInside` is false for the `initialize` of a session. */
  #running(isInside: boolean): Promise<Run> {
    const run = this.#run;
    if (run?.answer !== undefined) return Promise.resolve(run);
    this.#starting ??= this.#start(isInside).finally(() => {
      this.#starting = undefined;
      this.#restIfUnused();
    });
    return this.#starting;
  }

  async #start(isInside: boolean): Promise<Run> {
    const { server, restartDelay, takeSlot, isolation } = this.#options;
    if (this.#isClosed) throw upstreamUnavailable(server.name, "is closed");
    restartDelay.assertOver(server.name);
    const release = await takeSlot();
    if (this.#isClosed) {
      release();
      throw upstreamUnavailable(server.name, "is closed");
    }
    const held = this.#options.openHeld();
    const run: Run = {
      startedAt: performance.now(),
      process: undefined,
      asked: new Map(),
      answer: undefined,
      isInitialized: false,
      isStopped: false,
      hasEnded: false,
    };
    const place = await isolation.enter(server).catch((error: unknown) => {
      release();
      throw error;
    });
    const leave = (): Promise<void> => {
      held.release();
      return place.leave().finally(release);
    };
    try {
      run.process = await ChildProcess.start(await place.launch(), {
        held,
        onMessage: (message) => this.#receive(run, message),
        onEnd: (why) => {
          this.#onEnd(run, why);
          const left: Promise<void> = leave().finally(() => this.#ending.delete(left));
          this.#ending.add(left);
        },
      });
    } catch (error) {
      await leave();
      restartDelay.ended(run.startedAt);
      throw upstreamUnavailable(server.name, "cannot be started; check its command", error);
    }
    if (!run.hasEnded) this.#run = run;
    if (this.#isClosed) this.#stop();
    await this.#initialize(run, run.process, isInside);
    return run;
  }

  /** Opens the session at a process that has just started. */
  async #initialize(run: Run, process: ChildProcess, isInside: boolean): Promise<void> {
    const { server, initialize: params } = this.#options;
    const why = `did not answer \`initialize\` within ${INITIALIZE_MS / 1000} s`;
    const late = setTimeout(() => void process.close(why), INITIALIZE_MS);
    const id = this.#nextId++;
    const asked = Promise.withResolvers<RpcResponse>();
    run.asked.set(id, asked);
    if (run.hasEnded) asked.reject(upstreamUnavailable(server.name, "ended before it answered"));
    const message = { jsonrpc: "2.0", id, method: "initialize", ...(params === undefined ? {} : { params }) } as const;
    void process.send(message).catch(() => undefined);
    const answer = await asked.promise.finally(() => clearTimeout(late));
    if (answer.error !== undefined) {
      // The next session asks a new process.
      this.#stop();
      run.answer = answer;
      return;
    }
    run.answer = answer;
    if (!isInside) return;
    await this.#confirm(run);
    for (const request of this.#state.requests()) this.#tell(request);
  }

  #receive(run: Run, message: RpcMessage): void {
    if (run.isStopped) return;
    if (isResponse(message)) this.#receiveResponse(run, message);
    else if (isRequest(message)) this.#receiveRequest(run, message);
    else if (message.method === "notifications/progress") this.#receiveProgress(message);
    else this.#receiveNotification(message);
  }

  #receiveNotification(message: RpcNotification): void {
    const { method, params = {} } = message;
    // It names a request of the server's own, which sessions that share a child do not get.
    if (method === "notifications/cancelled" && this.#options.isShared) return;
    for (const client of this.#clients) {
      if (this.#state.concerns(client, method, params)) client.receive(message, undefined);
    }
  }

  #receiveResponse(run: Run, response: RpcResponse): void {
    const id = response.id as number;
    const asked = run.asked.get(id);
    if (asked !== undefined) {
      run.asked.delete(id);
      asked.resolve(response);
    } else if (this.#open.get(id)?.run === run) this.#answer(id, response);
  }

  #receiveRequest(run: Run, request: RpcRequest): void {
    if (!this.#options.isShared) {
      for (const client of this.#clients) client.receive(request, undefined);
      return;
    }
    const text = `the client does not support ${request.method}`;
    const isPing = request.method === "ping";
    const response = isPing ? createResult(request.id, {}) : createError(request.id, RPC_CODES.methodNotFound, text);
    void run.process?.send(response).catch(() => undefined);
  }

  #receiveProgress(message: RpcNotification): void {
    const { params = {} } = message;
    const own = ownValue(params, "progressToken") as number;
    const known = this.#tokens.get(own);
    if (known === undefined) return;
    const { client, token } = known;
    client.receive({ ...message, params: { ...params, progressToken: token } }, this.#open.get(own)?.request.id);
  }

  #onEnd(run: Run, why: string): void {
    const { server, restartDelay, log } = this.#options;
    run.hasEnded = true;
    if (this.#run === run) this.#run = undefined;
    if (!run.isStopped) {
      restartDelay.ended(run.startedAt);
      const stderr = withoutSecrets(run.process?.stderr ?? "", server);
      log.warn({ workspaceId: server.workspaceId, server: server.name, why, stderr }, "mcp server process ended");
    }
    const error = upstreamUnavailable(server.name, why);
    for (const { reject } of run.asked.values()) reject(error);
    for (const [id, open] of this.#open) if (open.run === run) this.#answer(id, errorFromFault(id, error));
  }

  /** Ends the present process because it is not needed. */
  #stop(): void {
    const run = this.#run;
    if (run?.process === undefined) return;
    run.isStopped = true;
    this.#run = undefined;
    const closing: Promise<void> = run.process.close("was ended").finally(() => this.#ending.delete(closing));
    this.#ending.add(closing);
  }

  get #isUsed(): boolean {
    return this.#streams > 0 || this.#starting !== undefined || [...this.#open.values()].some(isAwaited);
  }

  /** Sets or clears the time of the idle process's end. */
  #restIfUnused(): void {
    clearTimeout(this.#idle);
    if (this.#isUsed || this.#run === undefined || this.#isClosed) return;
    this.#idleSinceMs = performance.now();
    this.#idle = setTimeout(() => this.#stop(), idleMsOf(this.#options.server));
    this.#idle.unref();
  }
}

const isAwaited = ({ isLeft }: OpenRequest): boolean => !isLeft;

/** Milliseconds without use after which a server's process ends. */
const idleMsOf = ({ idleSeconds }: McpServer): number => idleSeconds * 1000;

const withoutSecrets = (text: string, { env }: McpServer): string =>
  Object.values(env).reduce((rest, secret) => (secret === "" ? rest : rest.replaceAll(secret, "***")), text);
