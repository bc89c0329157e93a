import { Registry } from "prom-client";
import { createGuard } from "../../src/semantic/guard.ts";
import { createModel } from "../../src/semantic/model.ts";
import { SILENT_LOG } from "./database.ts";

const METRICS = new Registry();

/** The model of a service without one. */
export const NO_MODEL = createModel({
  url: null,
  name: null,
  key: null,
  deadlineMs: 1_000,
  metrics: METRICS,
  log: SILENT_LOG,
});

/** The guard of a service without a model: every semantic rule is unavailable. */
export const NO_GUARD = createGuard({ model: NO_MODEL, metrics: METRICS, log: SILENT_LOG });
