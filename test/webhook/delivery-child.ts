import { once } from "node:events";
import { createQuickWebhooks, openReplica } from "./replica.ts";

const [url = ""] = process.argv.slice(2);
const replica = await openReplica(url);
const webhooks = createQuickWebhooks(replica);
webhooks.start();
process.stdout.write("delivering\n");
await once(process.stdin.resume(), "end");
await webhooks.close();
await replica.close();
