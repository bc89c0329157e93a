import { type ControlPlane, type ControlPlaneOptions, createControlPlane } from "../control-plane.ts";
import { createGrpcInterceptChannel } from "./grpc-intercept-channel.ts";

/** How a control plane is reached from Node. */
export interface NodeControlPlaneOptions extends Omit<ControlPlaneOptions, "interceptChannel"> {
  /** Address of the gRPC port, `host:port` or a URL. Absent: every intercept is a call of its own to `baseUrl`. */
  readonly grpcUrl?: string | undefined;
}

/**
 * Creates the client library for Node: with `grpcUrl`, intercepts share one gRPC stream, and go to `baseUrl` while that
 * is broken. MUST be closed then, or the open stream keeps the process alive.
 */
export function createNodeControlPlane({ grpcUrl, ...options }: NodeControlPlaneOptions): ControlPlane {
  if (grpcUrl === undefined) return createControlPlane(options);
  const interceptChannel = createGrpcInterceptChannel({ url: grpcUrl, apiKey: options.apiKey });
  return createControlPlane({ ...options, interceptChannel });
}
