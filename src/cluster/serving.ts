import type { Logger } from "pino";
import type { Config } from "../config.ts";
import type { FirstStart } from "../registry/first-start.ts";
import type { Addresses } from "../server/servers.ts";

/** What the service runs with. */
export interface Serving {
  readonly config: Config;
  readonly log: Logger;
  /** Resolves with the name of the signal when the service is to stop. */
  readonly stop: Promise<string>;
  /** Called once, when the service listens. */
  readonly announce: (addresses: Addresses, first: FirstStart) => void;
}
