import { addressFrom, HTTP_ADDRESS } from "../address.ts";
import { type ControlPlane, type ControlPlaneOptions, createControlPlane } from "../control-plane.ts";
import { assertApiKey } from "../options.ts";
import { createGrpcInterceptChannel } from "./grpc-intercept-channel.ts";
import { assertTls, type ClientTls, createTlsFetch, withAdvice } from "./tls.ts";

export { createGrpcInterceptChannel, type GrpcInterceptChannelOptions } from "./grpc-intercept-channel.ts";
export type { ClientTls } from "./tls.ts";

/** Addresses of a control plane and the key to use, in Node. */
export interface NodeControlPlaneOptions extends Omit<ControlPlaneOptions, "interceptChannel"> {
  /** Address of the gRPC port, `host:port` or a URL. Undefined means that every intercept is a separate call to `baseUrl`. */
  readonly grpcUrl?: string | undefined;
  /** Certificates for both addresses, which are then both with TLS. Not with `fetch` or `transport`. */
  readonly tls?: ClientTls | undefined;
}

/**
 * Creates a client for Node. With `grpcUrl`, intercepts share one gRPC stream, and go to `baseUrl` while the stream is broken.
 * Such a client MUST be closed, or the open stream keeps the process alive.
 */
export function createNodeControlPlane({ grpcUrl, tls, ...options }: NodeControlPlaneOptions): ControlPlane {
  assertApiKey(options.apiKey);
  const withFetch = { ...options, fetch: fetchFor(options, tls) };
  if (grpcUrl === undefined) return createControlPlane(withFetch);
  const interceptChannel = createGrpcInterceptChannel({ url: grpcUrl, apiKey: options.apiKey, tls });
  return createControlPlane({ ...withFetch, interceptChannel });
}

/** Returns the `fetch` for the HTTP port; undefined for the platform's. */
function fetchFor(
  { baseUrl, fetch: given, transport }: Omit<NodeControlPlaneOptions, "tls">,
  tls: ClientTls | undefined,
): typeof fetch | undefined {
  const own = given === undefined ? transport && "transport" : "fetch";
  if (tls !== undefined && own !== undefined) {
    throw new TypeError(`\`tls\` has no effect on \`${own}\`: give the certificates there`);
  }
  if (own !== undefined) return given;
  const address = addressFrom("baseUrl", baseUrl, HTTP_ADDRESS);
  if (tls === undefined) return address.isSecure ? withAdvice((...call) => globalThis.fetch(...call), tls) : undefined;
  assertTls("baseUrl", address, tls);
  return withAdvice(createTlsFetch(tls), tls);
}
