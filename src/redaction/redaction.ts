import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Database } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { createTargets, type Lookup } from "../webhook/target.ts";
import { type Leakage, sealLeakage } from "./leakage.ts";
import { createLeakageNotices } from "./leakage-notice.ts";
import { createPersonalValues, type PersonalValues } from "./personal-values.ts";
import { createScrubbers, type Scrubbers } from "./scrubbers.ts";
import { createSealer } from "./sealer.ts";
import { putSettings, type RedactionSettings, readSettings } from "./settings.ts";
import { createPlaceholders } from "./text/index.ts";
import type { Finding } from "./text/types.ts";
import { createRedactionWebhooks, type RedactionCaller, type RedactionWebhooks } from "./webhooks.ts";

/** A text without its personal values. */
export interface ScrubbedText {
  readonly text: string;
  /** Where they were in the text that was given. */
  readonly findings: readonly Finding[];
}

/** Everything of redaction but the proxy. */
export interface Redaction {
  readonly webhooks: RedactionWebhooks;
  readonly values: PersonalValues;
  readonly scrubbers: Scrubbers;
  settings(caller: RedactionCaller): Promise<RedactionSettings>;
  /** Replaces the settings as a whole. Rejects with INVALID_FIELD. */
  putSettings(caller: RedactionCaller, settings: RedactionSettings): Promise<RedactionSettings>;
  /** Scrubs one text as the proxy does on the way up. */
  scrub(caller: RedactionCaller, text: string): Promise<ScrubbedText>;
  /** Seals a leak; resolves with the function that tells webhooks of it. See `sealLeakage`. */
  seal(leakage: Leakage): Promise<() => void>;
  /** Waits a while for notices under way. MUST come before the database is closed. */
  close(graceMs: number): Promise<void>;
}

/** What redaction is built from. */
export interface RedactionOptions {
  readonly database: Pick<Database, "orm" | "pool">;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly log: StoreLog;
  /** The secret under which personal values are encrypted, from `loadRedactionKey`. */
  readonly key: string;
  /** CIDR blocks of private webhook targets that are allowed. */
  readonly webhookAllow: readonly string[];
  /** Default: the system's. */
  readonly lookup?: Lookup | undefined;
  /** Milliseconds for a webhook's one attempt. Default 10,000. */
  readonly attemptMs?: number;
}

/** Creates the redaction of every workspace. */
export function createRedaction(options: RedactionOptions): Redaction {
  const { database, logs, log, webhookAllow, lookup } = options;
  const { pool } = database;
  const { clock } = logs;
  const sealer = createSealer(options.key);
  const targets = createTargets({ allow: webhookAllow, lookup });
  const attempt = options.attemptMs === undefined ? {} : { attemptMs: options.attemptMs };
  const notices = createLeakageNotices({ pool, targets, sealer, log, ...attempt });
  const scrubbers = createScrubbers({ pool, sealer });
  return {
    webhooks: createRedactionWebhooks({ database, targets, sealer, clock, log }),
    values: createPersonalValues({ database, logs, sealer }),
    scrubbers,
    settings: ({ workspaceId }) => readSettings({ pool, sealer }, workspaceId),
    putSettings: (caller, settings) => putSettings({ pool, logs, sealer }, caller, settings),
    async scrub({ workspaceId }, text) {
      const { scrubber } = await scrubbers.of(workspaceId);
      return { text: createPlaceholders({ scrubber }).hide(text), findings: scrubber.find(text) };
    },
    seal: (leakage) => sealLeakage(logs, notices, leakage),
    close: notices.close,
  };
}
