import { Client } from "pg";
import { readExcessRights } from "../../src/store/login-rights.ts";

/**
 * Refuses to go on under a login that may do more than serving takes: a test under it would pass where the service is refused, or
 * change what the service cannot.
 */
export async function assertServingLogin(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const rights = await readExcessRights(client);
    if (rights.length === 0) return;
    const cure = "take these rights from it, or drop the role so that the tests make it anew";
    throw new Error(`the tests do not run under the login \`${client.user}\`: it has ${rights.join(", ")}; ${cure}`);
  } finally {
    await client.end();
  }
}
