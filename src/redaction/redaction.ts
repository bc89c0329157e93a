import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Database } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { Finding } from "../text/personal-kinds.ts";
import { createTargets, type Lookup, type Targets } from "../webhook/target.ts";
import { type IsKept, type JsonValue, scrubJson } from "./json-values.ts";
import { createLeakageNotices, type Leakage, sealLeakage } from "./leakage-notices.ts";
import { createRedactionWebhooks, type RedactionCaller, type RedactionWebhooks } from "./leakage-webhooks.ts";
import { MarkKeys } from "./mark-keys.ts";
import { createPersonalValues, type PersonalValues } from "./personal-values.ts";
import { createStoredObjects, type StoredObjects } from "./proxy/stored-objects.ts";
import { createScrubbers, type Scrubbers } from "./scrubbers.ts";
import { type PutSettings, putSettings, type RedactionSettings, readSettings } from "./settings.ts";
import { createPlaceholders } from "./text/placeholders.ts";

/** A text without its personal values. */
export interface ScrubbedText {
  readonly text: string;
  /** Ranges in the original text. */
  readonly findings: readonly Finding[];
}

/** Redaction of every workspace, without the proxy. */
export interface Redaction {
  readonly webhooks: RedactionWebhooks;
  readonly values: PersonalValues;
  readonly scrubbers: Scrubbers;
  settings(caller: RedactionCaller): Promise<RedactionSettings>;
  /** Replaces the settings as a whole. Rejects with INVALID_FIELD. */
  putSettings(caller: RedactionCaller, settings: RedactionSettings): Promise<PutSettings>;
  /** Scrubs one text in the same way as the proxy scrubs requests. */
  scrub(caller: RedactionCaller, text: string): Promise<ScrubbedText>;
  /** Scrubs the values of some kinds in a JSON value; see `scrubJson`. Rejects as `Scrubbers.ofKinds` does. */
  scrubJson(workspaceId: string, kinds: readonly string[], value: JsonValue, isKept: IsKept): Promise<JsonValue>;
  /** Seals a leak. Resolves with the function that sends the notices; see `sealLeakage`. */
  seal(leakage: Leakage): Promise<() => void>;
  /** Returns the guard of a workspace's stored objects in the account of `ACP_LLM_KEY`. Rejects as `MarkKeys.of` does. */
  storedObjects(workspaceId: string): Promise<StoredObjects>;
  /** Waits for notices in flight, at most `graceMs` milliseconds. MUST precede the closing of the database. */
  close(graceMs: number): Promise<void>;
  /** Guard of the addresses of workspaces' own model services. */
  readonly targets: Pick<Targets, "check" | "lookup">;
}

/** Parts and settings of redaction. */
export interface RedactionOptions {
  readonly database: Pick<Database, "orm" | "pool">;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly log: StoreLog;
  readonly encryptor: Encryptor;
  /** CIDR blocks of allowed private webhook targets. */
  readonly webhookAllow: readonly string[];
  /** Default: the system's resolver. */
  readonly lookup?: Lookup | undefined;
  /** Time limit of a webhook's single attempt in milliseconds. Default 10,000. */
  readonly attemptMs?: number;
}

/** Creates the redaction of every workspace. */
export function createRedaction(options: RedactionOptions): Redaction {
  const { database, logs, log, encryptor, webhookAllow, lookup } = options;
  const { pool } = database;
  const { clock } = logs;
  const targets = createTargets({ allow: webhookAllow, lookup });
  const attempt = options.attemptMs === undefined ? {} : { attemptMs: options.attemptMs };
  const notices = createLeakageNotices({ pool, targets, encryptor, log, ...attempt });
  const scrubbers = createScrubbers({ pool, encryptor });
  const marks = new MarkKeys({ pool, encryptor });
  return {
    webhooks: createRedactionWebhooks({ database, targets, encryptor, clock, log }),
    values: createPersonalValues({ database, logs, encryptor, marks }),
    scrubbers,
    settings: ({ workspaceId }) => readSettings({ pool, encryptor }, workspaceId),
    putSettings: (caller, settings) => putSettings({ pool, logs, encryptor, targets }, caller, settings),
    async scrub({ workspaceId }, text) {
      const { scrubber } = await scrubbers.of(workspaceId);
      const findings: Finding[] = [];
      const onFinding = (finding: Finding): void => void findings.push(finding);
      return { text: await createPlaceholders({ scrubber }).hide(text, { onFinding }), findings };
    },
    async scrubJson(workspaceId, kinds, value, isKept) {
      return scrubJson(await scrubbers.ofKinds(workspaceId, kinds), value, isKept);
    },
    seal: (leakage) => sealLeakage(logs, notices, leakage),
    storedObjects: async (workspaceId) => createStoredObjects(await marks.of(workspaceId)),
    close: notices.close,
    targets,
  };
}
