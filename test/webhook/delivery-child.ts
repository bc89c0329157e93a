import { once } from "node:events";
import { openReplica } from "./replica.ts";

const [url = ""] = process.argv.slice(2);
const replica = await openReplica(url);
replica.webhooks().start();
process.stdout.write("delivering\n");
await once(process.stdin.resume(), "end");
await replica.close();
