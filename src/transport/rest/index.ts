export type { RestCall, RestDispatcher, RestErrorBody } from "./call.ts";
export { createJsonDecoder, type JsonDecoder } from "./json-decoder.ts";
export { createJsonEncoder, type JsonEncoder } from "./json-encoder.ts";
export { type ParsedJson, parseJson } from "./json-text.ts";
export { type OpenApiDocument, type OpenApiOptions, openApiFromServices } from "./openapi.ts";
export {
  createRestTranscoder,
  DEFAULT_MAX_DEPTH,
  type RestRequestInfo,
  type RestRouteInfo,
  type RestTranscoder,
  type RestTranscoderOptions,
} from "./transcoder.ts";
