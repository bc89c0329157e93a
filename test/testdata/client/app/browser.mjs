import { run } from "./run.mjs";

// In a page and in a worker; both are told what to do by their address.
const { searchParams, origin } = new URL(self.location.href);
const apiKey = searchParams.get("key");
const agentId = searchParams.get("agent");
const result = await run({ baseUrl: origin, apiKey, agentId }).catch((error) => `${error.stack ?? error}`);
if (typeof document === "undefined") self.postMessage(result);
else self.result = result;
