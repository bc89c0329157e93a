import type { MigrationSource } from "../migrate.ts";
import { WorkspaceLogMigration } from "./0001-workspace-log.ts";

/** Every migration, in the order of their application. A migration that was released never changes. */
export const MIGRATIONS: readonly MigrationSource[] = [{ name: "0001-workspace-log", class: WorkspaceLogMigration }];
