import type { IncomingMessage, ServerResponse } from "node:http";
import { errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import type { ControlPlaneError } from "../errors.ts";
import type { Framing } from "./connect-framing.ts";
import { connectErrorFrom, errorBodyFrom } from "./error-mapping.ts";
import { sendJson } from "./http-reply.ts";

/**
 * Answers a request that reaches no method, in the form of the protocol that it speaks: status headers for gRPC and
 * gRPC-Web, a Connect error for Connect, the REST error for a request that speaks neither.
 */
export function sendRpcError(
  request: IncomingMessage,
  response: ServerResponse,
  framing: Framing | undefined,
  error: ControlPlaneError,
): void {
  request.resume();
  if (framing === undefined) {
    const { status, body, headers } = errorBodyFrom(error);
    sendJson(response, status, JSON.stringify(body), headers);
  } else if (framing.wire === "connect") {
    sendJson(response, errorBodyFrom(error).status, Buffer.from(errorToJsonBytes(connectErrorFrom(error), undefined)));
  } else {
    sendStatusHeaders(request, response, error);
  }
}

function sendStatusHeaders(request: IncomingMessage, response: ServerResponse, error: ControlPlaneError): void {
  response.statusCode = 200;
  response.setHeader("content-type", request.headers["content-type"] ?? "application/grpc");
  setTrailerStatus(new Headers(), connectErrorFrom(error)).forEach((value, name) => {
    response.setHeader(name, value);
  });
  // No writeHead before: over HTTP/2 the headers have to end the stream themselves.
  response.end();
}
