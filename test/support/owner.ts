import { Client } from "pg";
import { sessionUrlOf } from "./pooler.ts";

/** Runs `use` with a connection of its own to a database, past the pooler of the tests, for which `url` may log in as anyone. Needs no mocha, unlike `withClient`. */
export async function withOwner<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: sessionUrlOf(url) });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
