import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../errors.ts";
import { shuttingDown } from "./errors.ts";
import type { Health } from "./health.ts";

/** Milliseconds after which a database that does not answer counts as away. */
const DEFAULT_MAX_MS = 2_000;

/** Facts that readiness follows from. */
export interface ReadinessOptions {
  readonly health: Pick<Health, "serving">;
  /** Asks the database for an answer. A rejection means that it is away. */
  readonly ping: () => Promise<unknown>;
  /** Milliseconds that an answer may take. Default 2,000. */
  readonly maxMs?: number;
}

/** Readiness of a process for new calls: it accepts them, and its database answers. */
export class Readiness {
  readonly #options: ReadinessOptions;
  #asked: Promise<void> | undefined;

  constructor(options: ReadinessOptions) {
    this.#options = options;
  }

  /**
   * Resolves when the process is ready, within `maxMs`. Rejects with SHUTTING_DOWN or STORE_UNAVAILABLE. Checks that come at the same
   * time share one question to the database, since anyone may check.
   */
  async check(): Promise<void> {
    if (!this.#options.health.serving) throw shuttingDown();
    this.#asked ??= this.#ask().finally(() => {
      this.#asked = undefined;
    });
    await this.#asked;
  }

  #ask(): Promise<void> {
    const { ping, maxMs = DEFAULT_MAX_MS } = this.#options;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(databaseAway(`it gave no answer within ${maxMs} ms`)), maxMs);
      ping()
        .then(
          () => resolve(),
          (error: unknown) => reject(awayFrom(error)),
        )
        .finally(() => clearTimeout(timer));
    });
  }
}

function databaseAway(why: string, cause?: unknown): ControlPlaneError {
  const message = `the database does not answer: ${why}`;
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, {}, { cause });
}

/** Returns the error of a failed question. Its cause is left to the log: it may name hosts and logins. */
function awayFrom(error: unknown): ControlPlaneError {
  const { reason } = controlPlaneErrorFrom(error);
  const isAway = reason === ErrorReason.STORE_UNAVAILABLE;
  return databaseAway(isAway ? "it cannot be reached, or is starting" : "it answers with an error", error);
}
