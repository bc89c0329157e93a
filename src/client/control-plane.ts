import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { RedactionService } from "../../gen/agentcontrol/v1/redaction_service_pb.js";
import { type AgentWatch, createAgentWatches } from "./agent-watch.ts";
import type { EscalationVerdict } from "./escalation-verdict.ts";
import { type Guarded, type GuardOptions, guard, guardWithSignal, type Stoppable } from "./guard.ts";
import { type InterceptAction, type InterceptResult, interceptRequestFrom, interceptResultFrom } from "./intercept.ts";
import { callIntercept } from "./intercept-call.ts";
import type { InterceptChannel } from "./intercept-channel.ts";
import { createRequestId } from "./request-id.ts";
import { type ScrubOptions, type ScrubResult, scrubText } from "./scrub.ts";
import { type WaitEscalationOptions, waitForEscalation } from "./wait-escalation.ts";
import { withApiKey } from "./with-api-key.ts";

/** How a control plane is reached. */
export interface ControlPlaneOptions {
  /** Address of the HTTP port: `https://control.example.com`. Not used when `transport` is given. */
  readonly baseUrl: string;
  /** The key, sent as `X-API-Key` with every call. */
  readonly apiKey: string;
  /** A Connect transport to use instead of `fetch` to `baseUrl`. */
  readonly transport?: Transport | undefined;
  /** A channel that intercepts prefer while it accepts. `close()` closes it. */
  readonly interceptChannel?: InterceptChannel | undefined;
  /** Milliseconds that one intercept may take, retries included. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** The `fetch` to use. Default: the platform's. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** How one intercept is called. */
export interface InterceptOptions {
  /** Ends the call; it rejects with the signal's reason. The action may have been decided nevertheless. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds, retries included. Default: the control plane's `timeoutMs`. */
  readonly timeoutMs?: number | undefined;
}

/** The client library: decides actions before they happen. Works in browsers and on servers. */
export interface ControlPlane {
  /**
   * Asks for the decision on one action and returns it at once, `escalate` included. While the control plane cannot be
   * reached it is asked again until the time is up, always with the same `requestId`. Rejects with a
   * `ControlPlaneRequestError` when nothing was decided.
   */
  intercept(action: InterceptAction, options?: InterceptOptions): Promise<InterceptResult>;
  /** Wraps a function so that it MUST NOT run unless the control plane allows exactly this call of it. */
  guard<Args extends unknown[], Result>(
    fn: (...args: Args) => Result,
    options: GuardOptions<Args>,
  ): Guarded<Args, Result>;
  /** The same for a function whose first argument is a signal that aborts when its agent must stop. */
  guardWithSignal<Args extends unknown[], Result>(
    fn: Stoppable<Args, Result>,
    options: GuardOptions<Args>,
  ): Guarded<Args, Result>;
  /**
   * Hears at once when an agent is deactivated or revoked and when its sessions are killed. All who watch one agent
   * share one stream, which is opened again whenever it breaks and keeps the process alive until a second after the last
   * has closed.
   */
  watchAgent(agentId: string): AgentWatch;
  /** Waits until an escalation is resolved. Rejects with `EscalationTimeoutError` when nobody does in time. */
  waitForEscalation(escalationId: string, options?: WaitEscalationOptions): Promise<EscalationVerdict>;
  /** Replaces the personal values in a text by placeholders. Rejects with a `ControlPlaneRequestError`. */
  scrub(text: string, options?: ScrubOptions): Promise<ScrubResult>;
  /** A client of any service of the control plane, with the key. Its calls reject with `ConnectError`. */
  client<S extends DescService>(service: S): Client<S>;
  /**
   * Closes what is kept open; watches that are open hear nothing any more. Intercepts still work afterwards, each as a
   * call of its own.
   */
  close(): void;
}

/** Milliseconds: far above a decision, below the patience of an agent's run. */
export const DEFAULT_INTERCEPT_TIMEOUT_MS = 10_000;

/** Creates the client library on `fetch`, or on the given transport. */
export function createControlPlane(options: ControlPlaneOptions): ControlPlane {
  const { interceptChannel: channel, timeoutMs: presetMs = DEFAULT_INTERCEPT_TIMEOUT_MS } = options;
  const transport = withApiKey(options.transport ?? fetchTransport(options), options.apiKey);
  const routes = { client: createClient(EnforcementService, transport), channel };
  const escalations = createClient(EscalationService, transport);
  const redaction = createClient(RedactionService, transport);
  const watches = createAgentWatches(createClient(AgentService, transport));
  const controlPlane: ControlPlane = {
    async intercept(action, { signal, timeoutMs = presetMs } = {}) {
      const request = interceptRequestFrom(action, action.requestId ?? createRequestId());
      return interceptResultFrom(await callIntercept(routes, request, { signal, timeoutMs }));
    },
    guard: (fn, guardOptions) => guard(controlPlane, fn, guardOptions),
    guardWithSignal: (fn, guardOptions) => guardWithSignal(controlPlane, fn, guardOptions),
    watchAgent: watches.watch,
    waitForEscalation: (escalationId, waitOptions) => waitForEscalation(escalations, escalationId, waitOptions),
    scrub: (text, scrubOptions) => scrubText(redaction, text, scrubOptions),
    client: (service) => createClient(service, transport),
    close() {
      watches.close();
      channel?.close();
    },
  };
  return controlPlane;
}

function fetchTransport({ baseUrl, fetch }: ControlPlaneOptions): Transport {
  // The transport reads the platform's `fetch` for each call when none is given.
  return createConnectTransport({ baseUrl, useBinaryFormat: true, ...(fetch !== undefined && { fetch }) });
}
