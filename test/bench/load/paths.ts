/** The gRPC path of the unary call. */
export const UNARY_PATH = "/agentcontrol.v1.EnforcementService/Intercept";
/** The gRPC path of the stream. */
export const STREAM_PATH = "/agentcontrol.v1.EnforcementService/InterceptStream";
