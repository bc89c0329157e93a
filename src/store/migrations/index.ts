import type { MigrationSource } from "../migrate.ts";
import { WorkspaceLogMigration } from "./0001-workspace-log.ts";
import { AuthorityMigration } from "./0002-authority.ts";
import { WebhookMigration } from "./0003-webhook.ts";
import { SubtreeHashesMigration } from "./0004-subtree-hashes.ts";
import { RedactionMigration } from "./0006-redaction.ts";
import { EventIndexMigration } from "./0007-event-index.ts";
import { PackMigration } from "./0008-pack.ts";

/** Every migration, in the order of their application. A migration that was released never changes. */
export const MIGRATIONS: readonly MigrationSource[] = [
  { name: "0001-workspace-log", class: WorkspaceLogMigration },
  { name: "0002-authority", class: AuthorityMigration },
  { name: "0003-webhook", class: WebhookMigration },
  { name: "0004-subtree-hashes", class: SubtreeHashesMigration },
  { name: "0006-redaction", class: RedactionMigration },
  { name: "0007-event-index", class: EventIndexMigration },
  { name: "0008-pack", class: PackMigration },
];
