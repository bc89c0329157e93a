import { fromBinary } from "@bufbuild/protobuf";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { InterceptResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { UNARY_PATH } from "./load.ts";
import { type BenchService, type BenchWorkspace, startService } from "./service.ts";
import { requestsOf, unaryBytes } from "./workload.ts";

/** A start of the service on a workspace with a long log. */
export interface ColdStart {
  /** Milliseconds from the start of the process until it listened. */
  readonly listeningMs: number;
  /** Milliseconds from then, when the first request was sent, until it was answered. */
  readonly firstDecisionMs: number;
  /** Actions in the fullest window of the workspace, the first one included. */
  readonly inWindow: number;
  readonly service: BenchService;
}

/** Decides one action; gives the id of the decision. */
function decideOne({ grpc }: BenchService): Promise<string> {
  const { address, apiKey, agentIds } = grpc;
  const [request] = requestsOf(agentIds.slice(0, 1)).map(unaryBytes) as [Buffer];
  const client = new Client(address, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set("x-api-key", apiKey);
  const serialize = (bytes: Buffer): Buffer => bytes;
  const deserialize = (bytes: Buffer) => fromBinary(InterceptResponseSchema, bytes);
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(UNARY_PATH, serialize, deserialize, request, metadata, (error, reply) => {
      client.close();
      if (error !== null) reject(error);
      else resolve(reply?.decisionId ?? "");
    });
  });
}

async function countInWindow({ server, grpc }: BenchService, decisionId: string): Promise<number> {
  const headers = { "x-api-key": grpc.apiKey };
  const response = await fetch(`${server.http}/v1/enforce/decisions/${decisionId}`, { headers });
  const { receipt } = (await response.json()) as {
    receipt: { authorisation: { collective_limits: { scope: string; count: string | number }[] } };
  };
  const limits = receipt.authorisation.collective_limits.filter(({ scope }) => scope === "workspace");
  return Math.max(...limits.map(({ count }) => Number(count)));
}

/** Starts the service on a workspace that no process has in memory, and times its first decision. */
export async function coldStart(
  workspace: BenchWorkspace,
  cleanup: AsyncDisposableStack,
  env: Readonly<Record<string, string>> = {},
): Promise<ColdStart> {
  const startedAt = performance.now();
  const service = await startService(workspace, cleanup, env);
  const listeningAt = performance.now();
  const decisionId = await decideOne(service);
  const answeredAt = performance.now();
  return {
    listeningMs: listeningAt - startedAt,
    firstDecisionMs: answeredAt - listeningAt,
    inWindow: await countInWindow(service, decisionId),
    service,
  };
}
