import { type DescMethod, fromBinary, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { connectWire } from "./connect-wire.ts";
import { messageFromPlain, type PlainJson, plainFromMessage } from "./plain-json.ts";
import { restWire } from "./rest-wire.ts";
import type { TestServer } from "./server.ts";
import { type Answer, answerFromStatus, ok, rpcPath, type Wire } from "./wire-answer.ts";

export { routeOf } from "./rest-wire.ts";
export { type Answer, type CallOptions, rpcPath, WIRES, type Wire, type WireName } from "./wire-answer.ts";

/** Clients of every wire to one server. */
export interface Wires {
  readonly all: readonly Wire[];
  /** The channel of the gRPC wire, for calls of other shapes. */
  readonly grpc: Client;
  close(): void;
}

/** Connects a client of every wire. The credentials are those of the gRPC channel; default: without TLS. */
export function openWires(
  { http: baseUrl, grpc: address }: Pick<TestServer, "http" | "grpc">,
  channelCredentials = credentials.createInsecure(),
): Wires {
  const grpc = new Client(address, channelCredentials);
  const options = { baseUrl, httpVersion: "1.1" } as const;
  const all = [
    restWire(baseUrl),
    connectWire("connect-json", baseUrl, createConnectTransport({ ...options, useBinaryFormat: false })),
    connectWire("connect", baseUrl, createConnectTransport({ ...options, useBinaryFormat: true })),
    connectWire("grpc-web", baseUrl, createGrpcWebTransport(options)),
    grpcWire(grpc),
  ];
  return { all, grpc, close: () => grpc.close() };
}

const serialize = (method: DescMethod) => (plain: JsonObject) =>
  Buffer.from(toBinary(method.input, messageFromPlain(method.input, plain)));
const deserialize = (method: DescMethod) => (bytes: Buffer) =>
  plainFromMessage(method.output, fromBinary(method.output, bytes));

const answerFromGrpc = (error: ServiceError): Answer =>
  answerFromStatus(error.code, error.details, error.metadata.get("grpc-status-details-bin")[0] as Buffer | undefined);

/** The gRPC metadata that carries a key. */
export function metadataWith(key: string | null): Metadata {
  const metadata = new Metadata();
  if (key !== null) metadata.set("x-api-key", key);
  return metadata;
}

function grpcWire(client: Client): Wire {
  return {
    name: "grpc",
    unary: (method, request, { key, isExpired, raw }) =>
      new Promise((resolve, reject) => {
        const encode = raw === undefined ? serialize(method) : () => raw.bytes ?? Buffer.alloc(0);
        const options = isExpired ? { deadline: Date.now() - 1 } : {};
        const done = (error: ServiceError | null, body: PlainJson | undefined) =>
          resolve(error === null ? ok(body ?? null) : answerFromGrpc(error));
        try {
          client.makeUnaryRequest(
            rpcPath(method),
            encode,
            deserialize(method),
            request,
            metadataWith(key),
            options,
            done,
          );
        } catch (error) {
          reject(error);
        }
      }),
    async *stream(method, request, { key, signal }) {
      const call = client.makeServerStreamRequest(
        ...([rpcPath(method), serialize(method), deserialize(method), request, metadataWith(key)] as const),
      );
      const cancel = () => call.cancel();
      signal?.addEventListener("abort", cancel);
      try {
        yield* call as AsyncIterable<PlainJson>;
      } catch (error) {
        if (!signal?.aborted) throw answerFromGrpc(error as ServiceError);
      } finally {
        signal?.removeEventListener("abort", cancel);
        call.cancel();
      }
    },
  };
}
