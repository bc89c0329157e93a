/** Settings of traces, from the standard variables of OpenTelemetry. The exporter itself reads `OTEL_EXPORTER_OTLP_…`. */
export interface TraceSettings {
  readonly sampler: { readonly kind: "always_on" | "always_off" | "traceidratio"; readonly isParentBased: boolean };
  /** Share of the traces that are recorded, for `traceidratio`. */
  readonly ratio: number;
  /** Settings of the queue of spans; undefined for the defaults of the SDK. */
  readonly queue: {
    readonly maxQueueSize: number | undefined;
    readonly maxExportBatchSize: number | undefined;
    readonly scheduledDelayMillis: number | undefined;
    readonly exportTimeoutMillis: number | undefined;
  };
}

type Environment = Readonly<Record<string, string | undefined>>;

const PROTOCOL = "http/protobuf";
const SAMPLER = /^(parentbased_)?(always_on|always_off|traceidratio)$/;
/** Maximum spans that wait to be exported. */
const MAX_QUEUE = 65_536;
const MAX_MS = 600_000;

/** Faults of the variables of traces, one line each. */
export class TraceSettingsError extends Error {
  override readonly name = "TraceSettingsError";
}

/**
 * Reads whether and how to trace. Undefined unless `OTEL_TRACES_EXPORTER` or an endpoint of OTLP is set, or if
 * `OTEL_SDK_DISABLED` is true. Throws a `TraceSettingsError` that names each faulty variable.
 */
export function traceSettingsFrom(env: Environment): TraceSettings | undefined {
  const text = (name: string): string => (env[name] ?? "").trim();
  if (text("OTEL_SDK_DISABLED").toLowerCase() === "true") return undefined;
  const exporter = text("OTEL_TRACES_EXPORTER").toLowerCase();
  const endpoint = text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") || text("OTEL_EXPORTER_OTLP_ENDPOINT");
  if (exporter === "none" || (exporter === "" && endpoint === "")) return undefined;
  const problems: string[] = [];
  if (exporter !== "" && exporter !== "otlp") problems.push("OTEL_TRACES_EXPORTER must be `otlp` or `none`");
  if (endpoint !== "" && !/^https?:$/.test(URL.canParse(endpoint) ? new URL(endpoint).protocol : ""))
    problems.push("the endpoint of OTLP must be an http or https URL, such as http://127.0.0.1:4318");
  const named = text("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") || text("OTEL_EXPORTER_OTLP_PROTOCOL") || PROTOCOL;
  if (named.toLowerCase() !== PROTOCOL) problems.push(`the protocol of OTLP must be \`${PROTOCOL}\``);
  const [, parentBased, kind] =
    SAMPLER.exec(text("OTEL_TRACES_SAMPLER").toLowerCase() || "parentbased_always_on") ?? [];
  if (kind === undefined)
    problems.push(
      "OTEL_TRACES_SAMPLER must be `always_on`, `always_off` or `traceidratio`, alone or after `parentbased_`",
    );
  const ratio = Number(text("OTEL_TRACES_SAMPLER_ARG") || "1");
  if (!(ratio >= 0 && ratio <= 1)) problems.push("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1");
  const whole = (name: string, min: number, max: number): number | undefined => {
    const given = text(name);
    if (given === "") return undefined;
    const value = /^\d{1,9}$/.test(given) ? Number(given) : Number.NaN;
    if (!(value >= min && value <= max)) problems.push(`${name} must be a whole number from ${min} to ${max}`);
    return value;
  };
  const queue = {
    maxQueueSize: whole("OTEL_BSP_MAX_QUEUE_SIZE", 1, MAX_QUEUE),
    maxExportBatchSize: whole("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, MAX_QUEUE),
    scheduledDelayMillis: whole("OTEL_BSP_SCHEDULE_DELAY", 1, MAX_MS),
    exportTimeoutMillis: whole("OTEL_BSP_EXPORT_TIMEOUT", 1, MAX_MS),
  };
  if (problems.length > 0 || kind === undefined) throw new TraceSettingsError(problems.join("\n"));
  const sampler = { kind: kind as TraceSettings["sampler"]["kind"], isParentBased: parentBased !== undefined };
  return { sampler, ratio, queue };
}
