import { createControlPlane } from "@agent-control-plane/client";

const controlPlane = createControlPlane({ baseUrl: "https://control.example.com", apiKey: "key" });
globalThis.guarded = controlPlane.guard((count) => count, {
  agentId: "agt_1",
  actionType: "read",
  toArguments: (count) => ({ count }),
});
