import type { FirstStart } from "../registry/first-start.ts";
import type { Addresses } from "../server/servers.ts";

/** The lines that `npm start` prints: where the service is, the key, and one command that decides an action. */
export function startNotice({ http, grpc }: Addresses, { adminKey, agentId }: FirstStart): string {
  const key = adminKey ?? "<the key that was printed when it was made>";
  const body = { agent_id: agentId ?? "<agent_id>", action_type: "payment.send", action_content: "pay 12 EUR to ACME" };
  return [
    "",
    "Agent Control Plane",
    `  REST, Connect, gRPC-Web  ${http}  (described at ${http}/openapi.json)`,
    `  gRPC                     ${grpc}`,
    `  admin key                ${key}`,
    "",
    "Decide an action:",
    `  curl -s ${http}/v1/enforce/intercept -H 'X-API-Key: ${key}' -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`,
    "",
    // For programs that start the service and have to find it.
    JSON.stringify({ msg: "listening", http, grpc }),
    "",
  ].join("\n");
}
