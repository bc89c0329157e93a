import { Client } from "pg";

/** Runs `use` with a connection of its own to a database, for which `url` may log in as anyone. Needs no mocha, unlike `withClient`. */
export async function withOwner<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
