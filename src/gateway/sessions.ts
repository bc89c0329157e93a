import type { JsonValue } from "@bufbuild/protobuf";
import type { IdleThing, Portion, SharedPot } from "../async/shared-pot.ts";
import { endAuthority } from "../authority/existing-authority.ts";
import { createAuthority } from "../authority/new-authority.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ownValue } from "../policy/json-value.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { StoreLog } from "../store/migrate.ts";
import { errorTypeOf, type Span } from "../tracing/tracing.ts";
import type { McpCaller } from "./caller.ts";
import type { Endpoint } from "./endpoint.ts";
import type { RpcId, RpcRequest, RpcResponse } from "./messages.ts";
import type { CallOutcome } from "./outcome-reports.ts";
import { createSessionPot } from "./pots.ts";
import { ServerRequests } from "./server-requests.ts";
import { SetAside } from "./set-aside.ts";

/** Milliseconds after which a session without a request or an open stream is closed. */
const IDLE_MS = 1_800_000;
/** Milliseconds after which such a session is closed when room is needed. */
const IDLE_MS_FOR_ROOM = 60_000;
const SWEEP_MS = 60_000;

/** A request in flight: held, or forwarded. */
export class OpenCall {
  /** Span of the request to the server; undefined before it is sent, and if nothing is recorded. */
  span: Span | undefined;
  readonly id: RpcId;
  readonly method: string;
  /** Address of the resource that it asks for. */
  readonly uri: JsonValue | undefined;
  /** Aborts with the reason when the client cancels the call, its key ends, or the service closes. */
  ending: AbortController;
  /** Called once the server has answered. */
  onAnswered: (() => void) | undefined;
  /**
   * Called when the client cancels the forwarded call, with its reason. Returns true if the server is not told. Default: the server
   * is told.
   */
  onCancelled: ((reason: string) => boolean) | undefined;
  /** Outcome to report; undefined for a call whose outcome is not tracked, and before it was decided. */
  outcome: CallOutcome | undefined;
  /** Changes the response before the client gets it, on whichever stream it comes. */
  readonly transform: (response: RpcResponse) => RpcResponse | Promise<RpcResponse>;
  /**
   * Has the session of the call observe the response, and returns what the client gets; undefined for a call without a session, and
   * before it was decided.
   */
  observe: ((response: RpcResponse) => Promise<RpcResponse>) | undefined;
  /** Members of its result that the endpoint gives beside the response. */
  readonly aside = new SetAside();
  /** True once the call was sent to the upstream server. */
  isForwarded = false;
  /** True once the server has answered the call. */
  isAnswered = false;

  constructor(request: RpcRequest, ending: AbortController, transform: OpenCall["transform"] = passThrough) {
    this.id = request.id;
    this.method = request.method;
    this.uri = ownValue(request.params ?? {}, "uri");
    this.ending = ending;
    this.transform = transform;
  }
}

const passThrough = (response: RpcResponse): RpcResponse => response;

/** A client's session with one upstream server. It is a session of the control plane with the same id. */
export class Session {
  /** `ses_…` of the control plane's session, and `Mcp-Session-Id`. */
  readonly id: string;
  readonly caller: McpCaller;
  readonly server: McpServer;
  readonly endpoint: Endpoint;
  /** The upstream server's own id of the session. */
  upstreamId: string | undefined;
  /** The client's unanswered requests. */
  readonly open = new Map<RpcId, OpenCall>();
  /** The server's unanswered requests. */
  readonly fromServer = new ServerRequests();
  /** Digests of the URIs that the client has subscribed to. */
  readonly subscriptions = new Set<string>();
  /** Open streams of the server's own messages. */
  readonly streams = new Set<AbortController>();
  /** Called once when the session is closed. */
  onClosed: (() => void) | undefined;
  readonly #place: Portion;
  #usedAt = performance.now();

  constructor(id: string, caller: McpCaller, server: McpServer, endpoint: Endpoint, place: Portion) {
    this.#place = place;
    this.id = id;
    this.caller = caller;
    this.server = server;
    this.endpoint = endpoint;
  }

  /** Monotonic milliseconds of the last use. */
  get usedAt(): number {
    return this.#usedAt;
  }

  /** Notes a use, at its begin and at its end. */
  touch(): void {
    this.#usedAt = performance.now();
  }

  /** Tests whether nothing has used the session for a time: no call is open, and no stream. */
  isIdleFor(ms: number): boolean {
    return this.open.size === 0 && this.streams.size === 0 && performance.now() - this.#usedAt >= ms;
  }

  /** Gives the session's place back and aborts everything in flight. */
  abort(reason: unknown): void {
    this.#place.release();
    for (const { ending, span } of this.open.values()) {
      ending.abort(reason);
      span?.end(errorTypeOf(reason));
    }
    for (const stream of this.streams) stream.abort(reason);
  }
}

/** Parts of `Sessions`. */
export interface SessionsOptions {
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly log: StoreLog;
  /** Pot of the places of sessions. Default: 20,000. */
  readonly sessionPot?: SharedPot | undefined;
  /** Milliseconds after which an unused session is closed when room is needed. Default 60,000. */
  readonly idleMsForRoom?: number | undefined;
}

/** Open sessions of clients in this process. Another process answers 404, and clients then open a new session. */
export class Sessions {
  readonly #logs: SessionsOptions["logs"];
  readonly #log: StoreLog;
  readonly #sessions = new Map<string, Session>();
  readonly #pot: SharedPot;
  readonly #idleMsForRoom: number;
  readonly #sweep: NodeJS.Timeout;

  constructor({ logs, log, sessionPot = createSessionPot(), idleMsForRoom = IDLE_MS_FOR_ROOM }: SessionsOptions) {
    this.#logs = logs;
    this.#log = log;
    this.#pot = sessionPot;
    this.#idleMsForRoom = idleMsForRoom;
    this.#sweep = setInterval(() => this.#closeIdle(), SWEEP_MS);
    this.#sweep.unref();
  }

  /** Number of open sessions. */
  get size(): number {
    return this.#sessions.size;
  }

  /**
   * Opens a session at the endpoint that `openEndpoint` opens. Closes idle ones if there is no room. Rejects with
   * AGENT_NOT_FOUND, AGENT_INACTIVE and OVERLOADED.
   */
  async open(caller: McpCaller, server: McpServer, openEndpoint: () => Promise<Endpoint>): Promise<Session> {
    const place = await this.#pot.takeOneMakingRoom(caller, () => this.#idleForRoom());
    let endpoint: Endpoint | undefined;
    try {
      endpoint = await openEndpoint();
      const { workspaceId, agentId, keyId } = caller;
      const draft = { kind: "session" as const, agentId, text: `MCP server ${server.name}` };
      const { sealed } = await createAuthority(await this.#logs.of(workspaceId), keyId, draft);
      const session = new Session(sealed.id, caller, server, endpoint, place);
      this.#sessions.set(session.id, session);
      return session;
    } catch (error) {
      place.release();
      await endpoint?.close();
      throw error;
    }
  }

  /**
   * Returns the session of a request. Throws MCP_SESSION_NOT_FOUND if it is unknown, closed, or belongs to another key, agent or
   * server; the client then opens a new one.
   */
  get(id: string | undefined, { workspaceId, agentId, keyId }: McpCaller, server: McpServer): Session {
    if (id === undefined) {
      const text = "the request names no session; send `Mcp-Session-Id` from the response to `initialize`";
      throw new ControlPlaneError(ErrorReason.INVALID_FIELD, text, { field: "Mcp-Session-Id" });
    }
    const session = this.#sessions.get(id);
    const isOwn =
      session?.caller.workspaceId === workspaceId &&
      session.caller.agentId === agentId &&
      session.caller.keyId === keyId &&
      session.server.name === server.name &&
      session.server.revision === server.revision;
    if (session === undefined || !isOwn) {
      const text = "the session is not open in this process; send `initialize` to open a new one";
      throw new ControlPlaneError(ErrorReason.MCP_SESSION_NOT_FOUND, text);
    }
    session.touch();
    return session;
  }

  /** Closes a session here and ends the control plane's session. MUST NOT reject. */
  async close(session: Session, reason: unknown): Promise<void> {
    if (!this.#sessions.delete(session.id)) return;
    session.onClosed?.();
    session.abort(reason);
    await session.endpoint.close();
    const { workspaceId, keyId } = session.caller;
    try {
      await endAuthority(await this.#logs.of(workspaceId), keyId, { kind: "session", id: session.id });
    } catch (error) {
      // The control plane's session has already ended, for instance by a revocation.
      if (error instanceof ControlPlaneError && error.reason !== ErrorReason.STORE_UNAVAILABLE) return;
      this.#log.warn({ sessionId: session.id, cause: String(error) }, "mcp session not ended in the log");
    }
  }

  /** Aborts everything in flight and closes all sessions here. The control plane's sessions expire by themselves. */
  async closeAll(reason: unknown): Promise<void> {
    clearInterval(this.#sweep);
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    for (const session of sessions) {
      session.onClosed?.();
      session.abort(reason);
    }
    await Promise.all(sessions.map(({ endpoint }) => endpoint.close()));
  }

  *#idleForRoom(): Generator<IdleThing> {
    for (const session of this.#sessions.values()) {
      if (!session.isIdleFor(this.#idleMsForRoom)) continue;
      const close = () => this.close(session, new Error("room was needed, and the session was idle"));
      yield { holder: session.caller, idleSinceMs: session.usedAt, close };
    }
  }

  #closeIdle(): void {
    for (const session of this.#sessions.values()) {
      if (session.isIdleFor(IDLE_MS)) void this.close(session, new Error("the session was idle"));
    }
  }
}
