/*
 * The baseline of unary calls: a server that reads an InterceptRequest and writes a fixed InterceptResponse, with the same
 * serialisers as the service and nothing between them; and the same over bare HTTP and JSON.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { create, fromBinary, type MessageShape, toBinary, toJson } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import {
  type InterceptRequest,
  InterceptRequestSchema,
  type InterceptResponse,
  InterceptResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { serveParent } from "./child.ts";
import { UNARY_PATH } from "./load.ts";

/** Where the echo listens. */
export interface EchoAddresses {
  /** `host:port`. */
  readonly grpc: string;
  /** `host:port`. */
  readonly http: string;
}

const REPLY = {
  decision: Decision.ALLOW,
  trustScore: 87.4,
  decisionId: "dec_agm5mz3vjb2xtlq6lvrdcv3k2e",
  latencyMs: 2,
  decisionPath: DecisionPath.DEFAULT,
  reasons: [{ code: "DEFAULT", message: "no mandate matched; the workspace allows by default" }],
};

const definition = {
  intercept: {
    path: UNARY_PATH,
    requestStream: false,
    responseStream: false,
    requestDeserialize: (bytes: Buffer) => fromBinary(InterceptRequestSchema, bytes),
    requestSerialize: (request: InterceptRequest) => Buffer.from(toBinary(InterceptRequestSchema, request)),
    responseSerialize(response: MessageShape<typeof InterceptResponseSchema>) {
      const bytes = toBinary(InterceptResponseSchema, response);
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    },
    responseDeserialize: (bytes: Buffer) => fromBinary(InterceptResponseSchema, bytes),
  },
} as const;

async function listenGrpc(): Promise<string> {
  const server = new Server();
  server.addService(definition, {
    intercept: (_: ServerUnaryCall<InterceptRequest, InterceptResponse>, reply: sendUnaryData<InterceptResponse>) =>
      reply(null, create(InterceptResponseSchema, REPLY)),
  });
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(`127.0.0.1:${port}`) : reject(error),
    );
  });
}

async function listenHttp(): Promise<string> {
  const reply = toJson(InterceptResponseSchema, create(InterceptResponseSchema, REPLY));
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      JSON.parse(Buffer.concat(chunks).toString());
      const text = JSON.stringify(reply);
      response.writeHead(200, { "content-type": "application/json", "content-length": text.length }).end(text);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

serveParent(async (): Promise<EchoAddresses> => ({ grpc: await listenGrpc(), http: await listenHttp() }));
