import type { Pool, PoolClient } from "pg";

/**
 * Gives connections that die while they are in use back to their pool, which then forgets them. The ORM's transactions
 * do not: their COMMIT and their ROLLBACK both fail on a dead connection, and it is released after neither. Each would
 * take a place of the pool for good, and a few restarts of the database would leave none.
 */
export function releaseDeadClients(pool: Pool): void {
  const inUse = new Set<PoolClient>();
  const watched = new WeakSet<PoolClient>();

  const releaseIfInUse = (client: PoolClient): void => {
    if (!inUse.has(client)) return;
    client.release(true);
    // Who still holds it releases it as well, and must not be told off for it.
    client.release = () => undefined;
  };

  pool.on("acquire", (client) => {
    inUse.add(client);
    if (watched.has(client)) return;
    watched.add(client);
    client.once("end", () => releaseIfInUse(client));
  });
  pool.on("release", (_error, client) => inUse.delete(client));
}
