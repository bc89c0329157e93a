export type { Authenticate } from "./admit.ts";
export { connectErrorFrom, errorBodyFrom, grpcStatusFrom } from "./error-mapping.ts";
export { createGrpcServer, type GrpcServer, type GrpcServerOptions } from "./grpc.ts";
export { createHealth, type Health } from "./health.ts";
export { sendError, sendJson, sendText } from "./http-reply.ts";
export { createHttpServer, type HttpRoute, type HttpServer, type HttpServerOptions } from "./http-server.ts";
export type { MetricsPage } from "./http-status-pages.ts";
export { type IncomingCall, REQUEST_ID_HEADER, requestIdFrom, type Wire } from "./incoming.ts";
export { createPipeline, type Pipeline, type PipelineOptions } from "./pipeline.ts";
export { shuttingDown } from "./refusals.ts";
export { createRestDispatcher, REQUEST_TIMEOUT_HEADER } from "./rest-dispatcher.ts";
export {
  type Addresses,
  addressesFrom,
  joinServers,
  type PortName,
  type PortOptions,
  type Receivers,
  type Servers,
} from "./servers.ts";
export type { Tls } from "./tls.ts";
