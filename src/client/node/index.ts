import { type ControlPlane, type ControlPlaneOptions, createControlPlane } from "../control-plane.ts";
import { assertApiKey } from "../options.ts";
import { createGrpcInterceptChannel } from "./grpc-intercept-channel.ts";

export { createGrpcInterceptChannel, type GrpcInterceptChannelOptions } from "./grpc-intercept-channel.ts";

/** Addresses of a control plane and the key to use, in Node. */
export interface NodeControlPlaneOptions extends Omit<ControlPlaneOptions, "interceptChannel"> {
  /** Address of the gRPC port, `host:port` or a URL. Undefined: every intercept is a call of its own to `baseUrl`. */
  readonly grpcUrl?: string | undefined;
}

/**
 * Creates the client library for Node: with `grpcUrl`, intercepts share one gRPC stream, and go to `baseUrl` while it is
 * broken. MUST be closed then, or the open stream keeps the process alive.
 */
export function createNodeControlPlane({ grpcUrl, ...options }: NodeControlPlaneOptions): ControlPlane {
  if (grpcUrl === undefined) return createControlPlane(options);
  assertApiKey(options.apiKey);
  const interceptChannel = createGrpcInterceptChannel({ url: grpcUrl, apiKey: options.apiKey });
  return createControlPlane({ ...options, interceptChannel });
}
