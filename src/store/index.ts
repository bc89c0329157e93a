export {
  addressOf,
  type Database,
  type DatabaseOptions,
  DEFAULT_ACQUIRE_MS,
  DEFAULT_CONNECT_MS,
  openDatabase,
  waitForDatabase,
} from "./database.ts";
export {
  DEFAULT_START_MS,
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
} from "./embedded-postgres.ts";
export { DEFAULT_MAX_CONNECTIONS } from "./embedded-postgres-server.ts";
export { ENTITIES } from "./entities.ts";
export {
  APPLICATION_ROLE,
  insertOnly,
  type MigrationOptions,
  type MigrationReport,
  type MigrationSource,
  runMigrations,
  type StoreLog,
} from "./migrate.ts";
export { MIGRATIONS } from "./migrations/index.ts";
