import type { JsonObject } from "@bufbuild/protobuf";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** A request to an upstream server in Streamable HTTP. */
export interface EndpointRequest {
  readonly method: "POST" | "GET" | "DELETE";
  /** Headers of the protocol, in lower case; those of the server's own configuration are added by the endpoint. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Aborts the request, and the response while it streams. */
  readonly signal: AbortSignal;
  /** Watches the caller's rights, for a call that waits longer than the request lasts. Default: nothing ends them. */
  readonly watch?: WatchEnd;
}

/** Calls back once when a caller may call no more. Resolves with the function that ends the watch. */
export type WatchEnd = (onEnd: (reason: unknown) => void) => Promise<() => void>;

/** An upstream server as the gateway reaches it: Streamable HTTP of one generation. */
export interface Endpoint {
  /** Rejects with MCP_UPSTREAM_UNAVAILABLE. Follows no redirect. */
  fetch(request: EndpointRequest): Promise<Response>;
  /**
   * Tests whether a request, by its parameters, goes on with a call that waits for it here: one that was decided with these arguments.
   * Default: none waits.
   */
  continues?(method: string, params: JsonObject): boolean;
  /** Ends sessions, connections and children that belong to the endpoint alone. MUST NOT reject. */
  close(): Promise<void>;
}

/** Wire generations of MCP: `initialize` and sessions up to 2025-11-25, stateless requests from 2026-07-28 on. */
export type Generation = "stateful" | "stateless";

/** Creates the error for an upstream server that gives no usable answer. `why` is one line without secrets. */
export function upstreamUnavailable(server: string, why: string, cause?: unknown): ControlPlaneError {
  const message = `MCP server \`${server}\` ${why}`;
  return new ControlPlaneError(ErrorReason.MCP_UPSTREAM_UNAVAILABLE, message, { server }, { cause });
}
