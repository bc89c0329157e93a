import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect } from "chai";
import { TraceSettingsError, traceSettingsFrom } from "../../src/tracing/settings.ts";

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };

describe("settings of traces", () => {
  it("are there only if the variables of OpenTelemetry ask for traces.", () => {
    for (const env of [
      {},
      { OTEL_SERVICE_NAME: "x" },
      { OTEL_TRACES_EXPORTER: "none", ...ENDPOINT },
      { OTEL_SDK_DISABLED: "TRUE", OTEL_TRACES_EXPORTER: "otlp", ...ENDPOINT },
      { OTEL_SDK_DISABLED: "true", OTEL_TRACES_SAMPLER: "faulty", ...ENDPOINT },
    ]) {
      expect(traceSettingsFrom(env)).to.equal(undefined);
    }
    for (const env of [
      ENDPOINT,
      { OTEL_TRACES_EXPORTER: "otlp" },
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://c/v1" },
    ]) {
      expect(traceSettingsFrom(env)?.sampler).to.deep.equal({ kind: "always_on", isParentBased: true });
    }
  });

  it("take sampler and queue.", () => {
    const settings = traceSettingsFrom({
      ...ENDPOINT,
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0.25",
      OTEL_BSP_MAX_QUEUE_SIZE: "100",
    });
    expect(settings).to.deep.include({ sampler: { kind: "traceidratio", isParentBased: true }, ratio: 0.25 });
    expect(settings?.queue.maxQueueSize).to.equal(100);
  });

  for (const [name, value] of [
    ["OTEL_TRACES_EXPORTER", "zipkin"],
    ["OTEL_TRACES_SAMPLER", "sometimes"],
    ["OTEL_TRACES_SAMPLER_ARG", "2"],
    ["OTEL_BSP_MAX_QUEUE_SIZE", "0"],
    ["OTEL_BSP_SCHEDULE_DELAY", "soon"],
  ] as const) {
    it(`refuse a faulty ${name}, which they name.`, () => {
      expect(() => traceSettingsFrom({ ...ENDPOINT, [name]: value })).to.throw(TraceSettingsError, name);
    });
  }

  it("refuse another protocol than Protobuf over HTTP, and an endpoint without repeating it.", () => {
    expect(() => traceSettingsFrom({ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })).to.throw("http/protobuf");
    const secret = "ftp://user:pa55@host";
    expect(() => traceSettingsFrom({ OTEL_EXPORTER_OTLP_ENDPOINT: secret })).to.throw(/^(?!.*pa55)/);
  });

  it("that ask for traces without the packages are a fault that has the command to install them.", async () => {
    const folder = await mkdtemp(join(tmpdir(), "acp-no-packages-"));
    try {
      await writeFile(join(folder, "package.json"), '{"type": "module"}');
      for (const name of ["open-telemetry.ts", "trace-context.ts", "settings.ts", "tracing.ts"])
        await copyFile(join(import.meta.dirname, "../../src/tracing", name), join(folder, name));
      const { startTracing } = (await import(pathToFileURL(join(folder, "open-telemetry.ts")).href)) as {
        startTracing: (settings: unknown, log: unknown) => Promise<unknown>;
      };
      const fault = await startTracing(traceSettingsFrom(ENDPOINT), { warn: () => undefined }).catch((error) => error);
      expect(fault).to.have.property("name", "MissingPackage");
      expect(String(fault)).to.match(/npm install --no-save .*@opentelemetry\/sdk-trace@3/);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
