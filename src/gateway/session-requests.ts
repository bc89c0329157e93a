import type { IncomingMessage } from "node:http";
import type { DefinitionLists } from "./definition-lists.ts";
import { type Exchange, type Forwarding, inSession, type Unrouted } from "./exchange.ts";
import { headerOf, passedHeaders, SESSION_HEADER } from "./headers.ts";
import type { RpcRequest } from "./messages.ts";
import type { McpEnds } from "./session-ends.ts";
import { OpenCall, type Session, type Sessions } from "./sessions.ts";
import type { UpstreamFaults } from "./upstream-faults.ts";
import type { Upstreams } from "./upstreams.ts";

/** Parts of `SessionRequests`. */
export interface SessionRequestsOptions {
  readonly sessions: Sessions;
  readonly forwarding: Forwarding;
  readonly ends: Pick<McpEnds, "watch">;
  readonly upstreams: Pick<Upstreams, "stateful">;
  readonly lists: Pick<DefinitionLists, "filter">;
  readonly faults: Pick<UpstreamFaults, "during">;
}

/** Serves the requests that begin, read and end a session: `initialize`, GET and DELETE. */
export class SessionRequests {
  readonly #options: SessionRequestsOptions;

  constructor(options: SessionRequestsOptions) {
    this.#options = options;
  }

  /** Returns the session that a request names. Throws MCP_SESSION_NOT_FOUND. */
  sessionOf(request: IncomingMessage, { caller, server }: Unrouted): Session {
    return this.#options.sessions.get(headerOf(request, SESSION_HEADER), caller, server);
  }

  /** Opens a session. */
  initialize(given: Unrouted, headers: Exchange["headers"], message: RpcRequest): Promise<void> {
    return this.#options.faults.during(given.server, () => this.#initialize(given, headers, message));
  }

  async #initialize(given: Unrouted, headers: Exchange["headers"], message: RpcRequest): Promise<void> {
    const { sessions, forwarding, ends, upstreams, lists } = this.#options;
    const { caller, server, reply } = given;
    const session = await sessions.open(caller, server, () =>
      upstreams.stateful(server, caller.agentId, message.params),
    );
    const fail = (reason: unknown) => sessions.close(session, reason);
    const unwatch = await ends.watch(caller, (reason) => void fail(reason), session.id);
    session.onClosed = unwatch;
    const exchange = { ...given, ...inSession(session, headers) };
    const filter = lists.filter(exchange, message);
    const call = new OpenCall(message, given.ending, async (response) => {
      if (response.error !== undefined) void fail(new Error("the server refused the session"));
      return (await filter?.(response)) ?? response;
    });
    call.isForwarded = true;
    try {
      await forwarding.giveWay(exchange);
      const open = async (): Promise<Response> => {
        const answer = await forwarding.send(exchange, message, call);
        session.upstreamId = answer.headers.get(SESSION_HEADER) ?? undefined;
        reply.setHeader(SESSION_HEADER, session.id);
        return answer;
      };
      const end = await forwarding.relay(exchange, open, call);
      if (end !== "answered") await fail(new Error("the server did not open a session"));
    } catch (error) {
      await fail(error);
      throw error;
    }
  }

  /** Serves the stream of a server's own messages. */
  async stream(request: IncomingMessage, given: Unrouted): Promise<void> {
    const { reply, ending } = given;
    const session = this.sessionOf(request, given);
    const exchange = { ...given, ...inSession(session, passedHeaders(request)) };
    session.streams.add(ending);
    try {
      const { headers } = exchange;
      const open = () => session.endpoint.fetch({ method: "GET", headers, signal: ending.signal });
      await this.#options.forwarding.relay(exchange, open, undefined);
      reply.end();
    } finally {
      session.streams.delete(ending);
      session.touch();
    }
  }

  /** Ends a session. */
  async end(request: IncomingMessage, given: Unrouted): Promise<void> {
    const { reply, ending } = given;
    const session = this.sessionOf(request, given);
    const { headers } = inSession(session, passedHeaders(request));
    try {
      const answer = await session.endpoint.fetch({ method: "DELETE", headers, signal: ending.signal });
      await answer.body?.cancel();
    } finally {
      await this.#options.sessions.close(session, new Error("the client ended the session"));
    }
    reply.text(200, undefined, "");
  }
}
