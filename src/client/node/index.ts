export { createGrpcInterceptChannel, type GrpcInterceptChannelOptions } from "./grpc-intercept-channel.ts";
export { createNodeControlPlane, type NodeControlPlaneOptions } from "./node-control-plane.ts";
