import type { JsonObject } from "@bufbuild/protobuf";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { SetAside } from "./set-aside.ts";

/** A request to an upstream server in Streamable HTTP. */
export interface EndpointRequest {
  readonly method: "POST" | "GET" | "DELETE";
  /** Headers of the protocol, in lower case. The endpoint adds the headers of the server's configuration. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Aborts the request, and the response while it streams. */
  readonly signal: AbortSignal;
  /** Watch over the caller's rights, for a call that waits longer than its request. Default: the rights never end. */
  readonly watch?: WatchEnd;
  /** Takes members of the result, which the caller puts back. Default: the response has the whole result. */
  readonly aside?: SetAside | undefined;
}

/** Calls back once when a caller loses its right to call. Resolves with the function that ends the watch. */
export type WatchEnd = (onEnd: (reason: unknown) => void) => Promise<() => void>;

/** Connection to an upstream server: Streamable HTTP of one generation. */
export interface Endpoint {
  /** True if the server sees of a caller only what each request says, unless it keeps a session. Default: false. */
  readonly isShared?: boolean;
  /** Sends a request. Rejects with MCP_UPSTREAM_UNAVAILABLE. Does not follow redirects. */
  fetch(request: EndpointRequest): Promise<Response>;
  /**
   * Tests by its parameters whether a request continues a waiting call, which was decided with the same arguments. Default: no
   * call waits.
   */
  continues?(method: string, params: JsonObject): boolean;
  /** Ends the sessions, connections and child processes of this endpoint. MUST NOT reject. */
  close(): Promise<void>;
}

/** Generations of the MCP protocol: `initialize` and sessions up to 2025-11-25, stateless requests from 2026-07-28 on. */
export type Generation = "stateful" | "stateless";

/** Creates the error for an upstream server without a usable response. `why` is one line without secrets. */
export function upstreamUnavailable(server: string, why: string, cause?: unknown): ControlPlaneError {
  const message = `MCP server \`${server}\` ${why}`;
  return new ControlPlaneError(ErrorReason.MCP_UPSTREAM_UNAVAILABLE, message, { server }, { cause });
}
