import type { InterceptAction, InterceptResult } from "./intercept-call.ts";

/** The part of an OpenTelemetry `Span` that the library uses. */
export interface TracerSpan {
  setAttributes(attributes: Record<string, string | number | boolean>): unknown;
  addEvent(name: string, attributes: Record<string, string | number | boolean>): unknown;
  setStatus(status: { readonly code: number }): unknown;
  end(): void;
}

/** The part of an OpenTelemetry `Tracer` that the library uses. */
export interface Tracer {
  startActiveSpan<T>(
    name: string,
    options: { readonly attributes: Record<string, string | number | boolean> },
    run: (span: TracerSpan) => T,
  ): T;
}

/** Records the steps of one guarded call. */
export interface CallTrace {
  decided(result: InterceptResult): void;
  ranUnchecked(): void;
}

/** Runs one guarded call, in a span of its own if there is a tracer. */
export type Trace = <T>(action: InterceptAction, run: (call: CallTrace) => Promise<T>) => Promise<T>;

const SCOPE = "@agent-control-plane/client";
const SPAN = "agentcontrol.guard";
/** `SpanStatusCode.ERROR`. */
const ERROR = 2;
const UNTRACED: CallTrace = { decided: () => undefined, ranUnchecked: () => undefined };

/** Runs a call without a span. */
export const untraced: Trace = (_action, run) => run(UNTRACED);

/**
 * Traces calls with the given tracer, or with the tracer of `@opentelemetry/api` if it is installed. Spans carry ids and
 * decisions, but no arguments or messages, which may be personal.
 */
export function createTrace(given: Tracer | undefined): Trace {
  const ready = given === undefined ? installedTracer() : Promise.resolve(given);
  return async (action, run) => {
    const tracer = await ready;
    if (tracer === undefined) return await run(UNTRACED);
    return await tracer.startActiveSpan(SPAN, { attributes: attributesOf(action) }, (span) => runIn(span, run));
  };
}

async function runIn<T>(span: TracerSpan, run: (call: CallTrace) => Promise<T>): Promise<T> {
  try {
    return await run({
      decided: (result) => void span.addEvent("decision", decisionAttributes(result)),
      ranUnchecked: () => void span.setAttributes({ "agentcontrol.unchecked": true }),
    });
  } catch (error) {
    span.setAttributes({ "error.type": error instanceof Error ? error.name : typeof error });
    span.setStatus({ code: ERROR });
    throw error;
  } finally {
    span.end();
  }
}

async function installedTracer(): Promise<Tracer | undefined> {
  // In a variable, so that bundlers do not look for this optional package.
  const name = "@opentelemetry/api";
  try {
    const api = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as {
      readonly trace: { getTracer(scope: string): Tracer };
    };
    return api.trace.getTracer(SCOPE);
  } catch {
    return undefined;
  }
}

function attributesOf({ agentId, actionType, tool, sessionId, onBehalfOf }: InterceptAction) {
  return defined({
    "agentcontrol.agent_id": agentId,
    "agentcontrol.action_type": actionType,
    "agentcontrol.tool": tool,
    "agentcontrol.session_id": sessionId,
    "agentcontrol.on_behalf_of": onBehalfOf,
  });
}

function decisionAttributes({
  decision,
  decisionId,
  decisionPath,
  escalationId,
  policyName,
  trustScore,
}: InterceptResult) {
  return defined({
    "agentcontrol.decision": decision,
    "agentcontrol.decision_id": decisionId,
    "agentcontrol.decision_path": decisionPath,
    "agentcontrol.escalation_id": escalationId,
    "agentcontrol.policy_name": policyName,
    "agentcontrol.trust_score": trustScore,
  });
}

/** Returns the members that are neither undefined nor null. */
function defined(given: Readonly<Record<string, string | number | null | undefined>>): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(given).filter(
      (entry): entry is [string, string | number] => entry[1] !== undefined && entry[1] !== null,
    ),
  );
}
