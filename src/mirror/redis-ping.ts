import { Redis } from "ioredis";

/** Milliseconds that Redis may take to answer. */
const TIMEOUT_MS = 3_000;

/** Connects to Redis, asks for an answer, and closes the connection. Rejects with an error whose message holds no password. */
export async function pingRedis(url: string): Promise<void> {
  const redis = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout: TIMEOUT_MS,
    commandTimeout: TIMEOUT_MS,
  });
  // Without a listener the client would print each failure.
  let fault: Error | undefined;
  redis.on("error", (error: Error) => {
    fault ??= error;
  });
  try {
    await redis.connect();
    await redis.ping();
  } catch (error) {
    throw fault ?? error;
  } finally {
    redis.disconnect();
  }
}
