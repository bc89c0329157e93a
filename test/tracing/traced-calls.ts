/* One action over each wire, within a trace of its caller. */
import { randomUUID } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Client, credentials, type Metadata } from "@grpc/grpc-js";
import {
  EnforcementService,
  InterceptRequestSchema,
  InterceptResponseSchema,
  InterceptStreamRequestSchema,
  type InterceptStreamResponse,
  InterceptStreamResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { GatewayService } from "../gateway/harness.ts";
import { openRaw } from "../gateway/raw-client.ts";
import { metadataWith, rpcPath } from "../support/wires.ts";

/** The wires, and the places of a trace context in them. */
export const PLACES = [
  "rest",
  "connect",
  "grpc-web",
  "grpc",
  "grpc stream",
  "message of a stream",
  "metadata",
  "hook",
  "mcp header",
  "mcp _meta",
] as const;
/** One of them. */
export type Place = (typeof PLACES)[number];

/** The headers of a trace context. */
export type TraceHeaders = Readonly<Record<string, string>>;

const actionOf = (agentId: string, secret: string) => ({
  agentId,
  actionType: "pay",
  actionContent: `content ${secret}`,
  metadata: { arguments: { iban: secret } },
});

type Action = ReturnType<typeof actionOf>;

/** Sends one action of an agent with a secret in its arguments. `server` is an MCP server with the tool `pay`. */
export async function callWithTrace(
  gateway: GatewayService,
  server: string,
  place: Place,
  agentId: string,
  trace: TraceHeaders,
  secret = "S3CRET",
): Promise<void> {
  const { http, adminKey } = gateway;
  const headers = { "x-api-key": adminKey, ...trace };
  const action = actionOf(agentId, secret);
  switch (place) {
    case "rest":
    case "metadata": {
      const plain = { agent_id: agentId, action_type: "pay", action_content: action.actionContent };
      const metadata = { ...action.metadata, ...(place === "metadata" ? trace : {}) };
      const sent = place === "metadata" ? { "x-api-key": adminKey } : headers;
      await posted(`${http}/v1/enforce/intercept`, sent, { ...plain, metadata });
      return;
    }
    case "hook": {
      const event = { hook_event_name: "PreToolUse", tool_name: "Bash", tool_input: { command: secret } };
      await posted(`${http}/v1/hooks/claude-code`, { ...headers, "x-agent-id": agentId }, event);
      return;
    }
    case "connect":
    case "grpc-web": {
      const options = { baseUrl: http, httpVersion: "1.1" } as const;
      const transport = place === "connect" ? createConnectTransport(options) : createGrpcWebTransport(options);
      await createClient(EnforcementService, transport).intercept(action, { headers });
      return;
    }
    case "grpc":
      return overGrpc(gateway, trace, (client, metadata) => unary(client, metadata, action));
    case "grpc stream":
      return overGrpc(gateway, trace, (client, metadata) => streamed(client, metadata, action));
    case "message of a stream": {
      const traced = { ...action, metadata: { ...action.metadata, ...trace } };
      return overGrpc(gateway, {}, (client, metadata) => streamed(client, metadata, traced));
    }
    case "mcp header":
    case "mcp _meta": {
      const client = await openRaw(gateway, server, "with sessions", agentId);
      const params = { name: "pay", arguments: { iban: secret }, ...(place === "mcp _meta" ? { _meta: trace } : {}) };
      await client.ask("tools/call", params, place === "mcp header" ? trace : {});
    }
  }
}

async function posted(url: string, headers: TraceHeaders, body: object): Promise<void> {
  const init = { method: "POST", headers: { "content-type": "application/json", ...headers } };
  const response = await fetch(url, { ...init, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  await response.arrayBuffer();
}

async function overGrpc(
  { grpc, adminKey }: GatewayService,
  trace: TraceHeaders,
  call: (client: Client, metadata: Metadata) => Promise<void>,
): Promise<void> {
  const client = new Client(grpc, credentials.createInsecure());
  const metadata = metadataWith(adminKey);
  for (const [name, value] of Object.entries(trace)) metadata.set(name, value);
  await call(client, metadata).finally(() => client.close());
}

function unary(client: Client, metadata: Metadata, action: Action): Promise<void> {
  const { method } = EnforcementService;
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      rpcPath(method.intercept),
      (request: Action) => Buffer.from(toBinary(InterceptRequestSchema, create(InterceptRequestSchema, request))),
      (bytes: Buffer) => fromBinary(InterceptResponseSchema, bytes),
      action,
      metadata,
      (error) => (error === null ? resolve() : reject(error)),
    );
  });
}

/** Sends an action on a native stream, and ends the stream once it is answered. */
async function streamed(client: Client, metadata: Metadata, action: Action): Promise<void> {
  const bytesOf = (intercept: Action): Buffer => {
    const request = { intercept: { ...intercept, requestId: randomUUID() } };
    return Buffer.from(toBinary(InterceptStreamRequestSchema, create(InterceptStreamRequestSchema, request)));
  };
  const read = (bytes: Buffer) => fromBinary(InterceptStreamResponseSchema, bytes);
  const call = client.makeBidiStreamRequest(
    rpcPath(EnforcementService.method.interceptStream),
    bytesOf,
    read,
    metadata,
  );
  call.write(action);
  for await (const reply of call as AsyncIterable<InterceptStreamResponse>) {
    if (reply.result.case !== "response") throw new Error("the stream answered with a fault");
    call.end();
  }
}
