import { context, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { expect } from "chai";
import { type ControlPlane, createControlPlane, type GuardOptions } from "../../src/client/index.ts";
import type { TestService } from "../support/service.ts";
import { NOWHERE, pendingEscalationOf, rejection, startRuledService } from "./harness.ts";

describe("spans of guarded calls", () => {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  let service: TestService;
  let agentId: string;

  before("sets OpenTelemetry up and starts a server", async () => {
    trace.setGlobalTracerProvider(provider);
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    service = await startRuledService();
    agentId = await service.agent();
  });
  after("takes both down", async () => {
    trace.disable();
    context.disable();
    await service?.stop();
  });
  beforeEach(() => exporter.reset());

  const optionsFor = (more: Partial<GuardOptions<[string]>> = {}): GuardOptions<[string]> => ({
    agentId,
    actionType: "read",
    toArguments: (secret) => ({ secret }),
    ...more,
  });
  const only = (): ReadableSpan => {
    const spans = exporter.getFinishedSpans().filter(({ name }) => name === "agentcontrol.guard");
    expect(spans).to.have.length(1);
    return spans[0] as ReadableSpan;
  };
  /** Attributes of the decisions that a span notes. */
  const decisionsOf = ({ events }: ReadableSpan) => events.map(({ attributes }) => attributes ?? {});

  it("come from the installed package, around the spans of the function and within the caller's.", async () => {
    const inner = trace.getTracer("app");
    const work = service.admin.guard((_secret: string) => inner.startActiveSpan("inner", (span) => span.end()), {
      ...optionsFor({ tool: "files" }),
    });
    await inner.startActiveSpan("outer", async (span) => {
      await work("hunter2");
      span.end();
    });
    const span = only();
    const named = (name: string) => exporter.getFinishedSpans().find((each) => each.name === name);
    expect(span.parentSpanContext?.spanId).to.equal(named("outer")?.spanContext().spanId);
    expect(named("inner")?.parentSpanContext?.spanId).to.equal(span.spanContext().spanId);
    expect(span.instrumentationScope.name).to.equal("@agent-control-plane/client");
    expect(span.attributes).to.deep.equal({
      "agentcontrol.agent_id": agentId,
      "agentcontrol.action_type": "read",
      "agentcontrol.tool": "files",
    });
    expect(decisionsOf(span)[0]).to.include({
      "agentcontrol.decision": "allow",
      "agentcontrol.decision_path": "default",
    });
    expect(span.status.code).to.equal(SpanStatusCode.UNSET);
    const { resource: _, ...shown } = { ...span, resource: undefined };
    expect(JSON.stringify([shown.attributes, shown.events])).not.to.contain("hunter2");
  });

  it("note each decision of an escalated call, and the error of a refused one without its words.", async () => {
    const work = service.admin.guard((secret: string) => secret, optionsFor({ actionType: "review.x" }));
    const call = work("a");
    await service.resolve(await pendingEscalationOf(service.admin, agentId), "approved");
    await call;
    expect(decisionsOf(only()).map((each) => each["agentcontrol.decision"])).to.deep.equal(["escalate", "allow"]);
    exporter.reset();
    const blocked = service.admin.guard((secret: string) => secret, optionsFor({ actionType: "danger.x" }));
    await rejection(blocked("hunter2"));
    const span = only();
    expect(span.status).to.deep.equal({ code: SpanStatusCode.ERROR });
    expect(span.attributes["error.type"]).to.equal("AgentBlockedError");
    expect(JSON.stringify(span.events)).not.to.contain("hunter2");
  });

  it("say when a function ran unchecked, and come from a given tracer.", async () => {
    const tracer = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }).getTracer("own");
    const away: ControlPlane = createControlPlane({ baseUrl: NOWHERE, apiKey: "none", timeoutMs: 200, tracer });
    await away.guard((secret: string) => secret, optionsFor({ onUnreachable: "allow" }))("a");
    const span = only();
    expect(span.attributes).to.include({ "agentcontrol.unchecked": true });
    expect(span.instrumentationScope.name).to.equal("own");
  });
});
