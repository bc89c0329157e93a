import { Registry } from "prom-client";
import { createGuard } from "../../src/semantic/guard.ts";
import { SILENT_LOG } from "./database.ts";

/** The guard of a service without a model: every semantic rule is unavailable. */
export const NO_GUARD = createGuard({
  ...{ url: null, model: null, key: null, deadlineMs: 1_000 },
  metrics: new Registry(),
  log: SILENT_LOG,
});
