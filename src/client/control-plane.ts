import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { addressFrom, HTTP_ADDRESS } from "./address.ts";
import { type AgentWatch, AgentWatches } from "./agent-watch.ts";
import { createFetchTransport } from "./fetch-transport.ts";
import { guard, guardWithSignal } from "./guard.ts";
import type { Guarded, GuardOptionsFor, GuardResult, OutcomeOptions, Stoppable, WaitOption } from "./guard-options.ts";
import { callIntercept, type InterceptAction, type InterceptResult } from "./intercept-call.ts";
import { callObserve, type Observation, type ObservePromptOptions } from "./observation.ts";
import { assertApiKey, assertPositive } from "./options.ts";
import { type ActionClaim, type ClaimResult, callClaim, callReport, type OutcomeReport } from "./outcome-calls.ts";
import { requestErrorFrom } from "./request-error.ts";
import type { InterceptChannel } from "./routes.ts";
import type { ScrubOptions, ScrubResult } from "./scrub.ts";
import { createTrace, type Tracer } from "./trace.ts";
import {
  type EditedApproval,
  type EscalationVerdict,
  type WaitEscalationOptions,
  waitForEscalation,
} from "./wait-escalation.ts";

/** Address of a control plane and the key to use. */
export interface ControlPlaneOptions {
  /** Address of the HTTP port: `https://control.example.com`, or `host:port` without TLS. Not used when `transport` is given. */
  readonly baseUrl: string;
  /** The API key, sent as `X-API-Key` with every call. */
  readonly apiKey: string;
  /** A Connect transport to use instead of `fetch` to `baseUrl`. */
  readonly transport?: Transport | undefined;
  /** A channel that intercepts prefer while it accepts. `close()` closes it. */
  readonly interceptChannel?: InterceptChannel | undefined;
  /** Time limit of one intercept, claim or report in milliseconds, retries included. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** The acting agent of guarded functions and intercepts that name none. */
  readonly agentId?: string | undefined;
  /**
   * Called once with each warning of a probable mistake, such as a guarded function that names a tool which is not registered.
   * Default: `console.warn`.
   */
  readonly onWarning?: ((message: string) => void) | undefined;
  /** Replacement for the platform's `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /**
   * An OpenTelemetry tracer for a span `agentcontrol.guard` per guarded call. Default: the tracer of the package
   * `@opentelemetry/api`, if it is installed; a bundle for browsers has to pass its own.
   */
  readonly tracer?: Tracer | undefined;
}

/** Limits of one intercept, claim or report. */
export interface InterceptOptions {
  /** Ends the call, which then rejects with the signal's reason. It may have been served nevertheless. */
  readonly signal?: AbortSignal | undefined;
  /** Time limit in milliseconds, retries included. Default: the control plane's `timeoutMs`. */
  readonly timeoutMs?: number | undefined;
}

/** An action whose agent may be that of the control plane. */
type AgentOptional<Action extends { readonly agentId: string }> = Omit<Action, "agentId"> & {
  readonly agentId?: string | undefined;
};

/** Client of a control plane, which decides actions before they happen. Works in browsers and on servers. */
export interface ControlPlane {
  /** The acting agent of guarded functions and intercepts that name none. */
  readonly agentId: string | undefined;
  /**
   * Requests the decision on one action and returns it at once, `escalate` included. While the control plane cannot be reached,
   * retries with the same `requestId` until the time is up. Rejects with a `ControlPlaneRequestError` if nothing was decided.
   */
  intercept(action: AgentOptional<InterceptAction>, options?: InterceptOptions): Promise<InterceptResult>;
  /**
   * Claims an allowed action for the caller, who is to run it: two callers with the same decision never both hold it. While no answer
   * comes, retries with the same id until the time is up. Rejects with a `ControlPlaneRequestError` unless the claim holds; the action
   * MUST NOT run then. Guarded functions claim by themselves.
   */
  claim(claim: ActionClaim, options?: InterceptOptions): Promise<ClaimResult>;
  /**
   * Reports how an allowed action ended; the first report counts. While no answer comes, retries until the time is up. Rejects with a
   * `ControlPlaneRequestError` if it is refused or was not delivered. Guarded functions report by themselves.
   */
  reportOutcome(report: OutcomeReport, options?: InterceptOptions): Promise<void>;
  /**
   * Tells a session what its agent was asked or read, so that rules know where values come from. Telling the same again changes
   * nothing. While no answer comes, retries until the time is up. Rejects with a `ControlPlaneRequestError`. Guarded functions with
   * `observe` tell their results by themselves.
   */
  observe(observation: Observation, options?: InterceptOptions): Promise<void>;
  /** Tells a session what a person asked. MUST resolve before a model acts on it. Otherwise as `observe`. */
  observePrompt(text: string, options: ObservePromptOptions): Promise<void>;
  /**
   * Wraps a function so that it MUST NOT run unless the control plane allows exactly this call. With `waitOnEscalate: false`, a
   * call that needs an approval resolves with a `PendingApproval` at once. With `acceptEdits: true`, a call runs with the
   * arguments that a person approved instead.
   */
  guard<Args extends unknown[], Result, Waits extends boolean = true>(
    fn: (...args: Args) => Result,
    options: GuardOptionsFor<Args> & WaitOption<Waits> & OutcomeOptions<NoInfer<Awaited<Result>>>,
  ): Guarded<Args, GuardResult<Result, Waits>>;
  /** Like `guard`, for a function whose first argument is a signal that aborts when its agent must stop. */
  guardWithSignal<Args extends unknown[], Result, Waits extends boolean = true>(
    fn: Stoppable<Args, Result>,
    options: GuardOptionsFor<Args> & WaitOption<Waits> & OutcomeOptions<NoInfer<Awaited<Result>>>,
  ): Guarded<Args, GuardResult<Result, Waits>>;
  /**
   * Reports at once when an agent is deactivated or revoked and when its sessions are killed. All watches of an agent share one
   * stream, which is reopened whenever it breaks. It keeps the process alive until a second after the last watch is closed.
   */
  watchAgent(agentId: string): AgentWatch;
  /**
   * Waits until an escalation is resolved. Rejects with `EscalationTimeoutError` when nobody resolves it in time. With *
   * `acceptEdits: true` it resolves with an `EditedApproval` if a person approved the action with other arguments.
   */
  waitForEscalation(
    escalationId: string,
    options: WaitEscalationOptions & { readonly acceptEdits: true },
  ): Promise<EscalationVerdict | EditedApproval>;
  waitForEscalation(escalationId: string, options?: WaitEscalationOptions): Promise<EscalationVerdict>;
  /**
   * Withdraws one request for an approval; withdrawing the last one ends the escalation. Rejects with a
   * `ControlPlaneRequestError`, also if the escalation is already resolved (`ESCALATION_RESOLVED`). Guarded calls whose `signal`
   * aborts do this by themselves.
   */
  withdrawEscalation(escalationId: string): Promise<void>;
  /**
   * Replaces the personal values in a text by placeholders. If it rejects with a `ControlPlaneRequestError`, the text MUST NOT be
   * used.
   */
  scrub(text: string, options?: ScrubOptions): Promise<ScrubResult>;
  /** Returns a client of any service of the control plane, with the key. Its calls reject with `ConnectError`. */
  client<S extends DescService>(service: S): Client<S>;
  /**
   * Closes connections that are kept open. Open watches report nothing more. Intercepts still work afterwards, each as a separate
   * call.
   */
  close(): void;
}

/** Default time limit of an intercept in milliseconds: far longer than a decision takes, short enough for an agent's run. */
export const DEFAULT_INTERCEPT_TIMEOUT_MS = 10_000;

/**
 * Creates a client on `fetch`, or on the given transport. For an invalid address, key or time it throws a `TypeError` that names
 * the option.
 */
export function createControlPlane(options: ControlPlaneOptions): ControlPlane {
  const { interceptChannel: channel, timeoutMs: defaultMs = DEFAULT_INTERCEPT_TIMEOUT_MS } = options;
  assertApiKey(options.apiKey);
  assertPositive("timeoutMs", defaultMs);
  const transport = withApiKey(options.transport ?? fetchTransportTo(options), options.apiKey);
  const routes = { client: createClient(EnforcementService, transport), channel };
  const escalations = createClient(EscalationService, transport);
  const context = { trace: createTrace(options.tracer), warn: onceFor(options.onWarning ?? console.warn) };
  const watches = new AgentWatches(createClient(AgentService, transport));
  const controlPlane: ControlPlane = {
    agentId: options.agentId,
    async intercept({ agentId = options.agentId, ...action }, { signal, timeoutMs = defaultMs } = {}) {
      if (agentId === undefined) throw new TypeError("`agentId` is missing; give it here, or to the control plane");
      return await callIntercept(routes, { ...action, agentId }, { signal, timeoutMs });
    },
    claim: (claim, { signal, timeoutMs = defaultMs } = {}) => callClaim(routes, claim, { signal, timeoutMs }),
    reportOutcome: (report, { signal, timeoutMs = defaultMs } = {}) =>
      callReport(routes, report, { signal, timeoutMs }),
    observe: (observation, { signal, timeoutMs = defaultMs } = {}) =>
      callObserve(routes, observation, { signal, timeoutMs }),
    observePrompt: (content, { sessionId, ...limits }) =>
      controlPlane.observe({ sessionId, source: "prompt", content }, limits),
    // The types express which options make a call return a `PendingApproval`.
    guard: ((fn: never, guardOptions: never) =>
      guard(controlPlane, fn, guardOptions, context)) as ControlPlane["guard"],
    guardWithSignal: ((fn: never, guardOptions: never) =>
      guardWithSignal(controlPlane, fn, guardOptions, context)) as ControlPlane["guardWithSignal"],
    watchAgent: (agentId) => watches.watch(agentId),
    waitForEscalation: ((escalationId: string, waitOptions?: WaitEscalationOptions) =>
      waitForEscalation(escalations, escalationId, waitOptions)) as ControlPlane["waitForEscalation"],
    withdrawEscalation: (escalationId) => withdrawEscalation(escalations, escalationId),
    // Loaded on first use: a page that only guards functions does not need it.
    scrub: async (...args) => (await import("./scrub.ts")).scrubText(transport, ...args),
    client: (service) => createClient(service, transport),
    close() {
      watches.close();
      channel?.close();
    },
  };
  return controlPlane;
}

/** Returns a function that passes on each text once. */
function onceFor(tell: (text: string) => void): (text: string) => void {
  const told = new Set<string>();
  return (text) => {
    if (told.has(text)) return;
    told.add(text);
    tell(text);
  };
}

function fetchTransportTo({ baseUrl, fetch }: ControlPlaneOptions): Transport {
  return createFetchTransport({ baseUrl: addressFrom("baseUrl", baseUrl, HTTP_ADDRESS).url, fetch });
}

async function withdrawEscalation(client: Client<typeof EscalationService>, escalationId: string): Promise<void> {
  try {
    await client.withdrawEscalation({ escalationId }, { timeoutMs: DEFAULT_INTERCEPT_TIMEOUT_MS });
  } catch (error) {
    throw requestErrorFrom(error);
  }
}

/** Wraps a transport so that every call carries the API key. */
function withApiKey(transport: Transport, apiKey: string): Transport {
  const keyed = (header: HeadersInit | undefined): Headers => {
    const headers = new Headers(header);
    headers.set("x-api-key", apiKey);
    return headers;
  };
  return {
    unary: (method, signal, timeoutMs, header, input, contextValues) =>
      transport.unary(method, signal, timeoutMs, keyed(header), input, contextValues),
    stream: (method, signal, timeoutMs, header, input, contextValues) =>
      transport.stream(method, signal, timeoutMs, keyed(header), input, contextValues),
  };
}
