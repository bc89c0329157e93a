import { type ControlPlane, type ControlPlaneOptions, createControlPlane } from "../control-plane.ts";
import { assertApiKey } from "../options.ts";
import { createGrpcInterceptChannel } from "./grpc-intercept-channel.ts";

export { createGrpcInterceptChannel, type GrpcInterceptChannelOptions } from "./grpc-intercept-channel.ts";

/** Addresses of a control plane and the key to use, in Node. */
export interface NodeControlPlaneOptions extends Omit<ControlPlaneOptions, "interceptChannel"> {
  /** Address of the gRPC port, `host:port` or a URL. Undefined means that every intercept is a separate call to `baseUrl`. */
  readonly grpcUrl?: string | undefined;
}

/**
 * Creates a client for Node. With `grpcUrl`, intercepts share one gRPC stream, and go to `baseUrl` while the stream is broken.
 * Such a client MUST be closed, or the open stream keeps the process alive.
 */
export function createNodeControlPlane({ grpcUrl, ...options }: NodeControlPlaneOptions): ControlPlane {
  if (grpcUrl === undefined) return createControlPlane(options);
  assertApiKey(options.apiKey);
  const interceptChannel = createGrpcInterceptChannel({ url: grpcUrl, apiKey: options.apiKey });
  return createControlPlane({ ...options, interceptChannel });
}
