import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEmbeddedPostgres } from "../../src/store/embedded-postgres.ts";
import { runMigrations } from "../../src/store/migrate.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { assertServingLogin } from "./serving-login.ts";
import "./scratch.ts";

const SILENT_LOG = { info: () => undefined, warn: () => undefined, error: () => undefined };

/**
 * Starts a durable PostgreSQL with the product's tables for a program outside of the tests; it is gone after `cleanup`.
 * Gives the URL of the login that serves.
 */
export async function startOwnPostgres(cleanup: AsyncDisposableStack): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), "acp-own-"));
  cleanup.defer(() => rm(dataDir, { recursive: true, force: true }));
  // Open to the account that PostgreSQL runs under when this is root, so that the data lies here too.
  await chmod(dataDir, 0o755);
  const postgres = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
  cleanup.defer(() => postgres.stop());
  const login = new URL(postgres.url).username;
  await runMigrations(postgres.ownerUrl, { migrations: MIGRATIONS, login, log: SILENT_LOG });
  await assertServingLogin(postgres.url);
  return postgres.url;
}
