import process from "node:process";
import { run } from "./run.mjs";

const { BASE_URL: baseUrl, GRPC_URL: grpcUrl, KEY: apiKey, AGENT: agentId } = process.env;
if (grpcUrl === undefined) console.log(JSON.stringify(await run({ baseUrl, apiKey, agentId })));
else {
  const { createNodeControlPlane } = await import("@agent-control-plane/client/node");
  console.log(JSON.stringify(await run({ baseUrl, grpcUrl, apiKey, agentId }, createNodeControlPlane)));
}
