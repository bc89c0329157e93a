import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "chai";
import {
  AgentBlockedError,
  AgentStoppedError,
  AlreadyClaimedError,
  type ControlPlane,
  ControlPlaneRequestError,
  createControlPlane,
  type EditableGuardOptions,
  EscalationTimeoutError,
  type GuardOptions,
  PendingApproval,
} from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { until } from "../support/harness.ts";
import type { TestService } from "../support/service.ts";
import { type Network, type NetworkFault, openNetwork } from "./network-faults.ts";

/** How a guarded function behaves; `testdata/client/README.md` describes every member. */
export interface Scenario {
  readonly name: string;
  readonly given?: Given;
  readonly call: Call;
  readonly meanwhile?: readonly Step[];
  readonly want: Want;
}

type Args = Record<string, unknown>;
type Key = "bound" | "operator" | "unknown" | "empty";

interface Given {
  readonly settings?: object;
  readonly tools?: readonly object[];
  readonly mandates?: readonly object[];
  readonly agent_status?: "revoked";
  readonly session?: boolean;
  readonly principal?: { readonly lends: readonly string[] };
  readonly key?: Key;
  readonly address?: "malformed" | "bare" | "host_and_port";
  readonly network?: NetworkFault;
}

interface Call {
  readonly action_type?: string;
  readonly tool?: string;
  readonly arguments?: Args;
  readonly function?: "returns" | "runs_on";
  readonly repeat?: number;
  readonly request_id?: "same";
  readonly presents_approval?: boolean;
  readonly cancelled?: boolean;
  readonly wait_on_escalate?: boolean;
  readonly escalation_timeout?: number;
  readonly escalation_poll_interval?: number;
  readonly on_unreachable?: "block" | "allow";
  readonly accept_edits?: boolean;
  readonly timeout_ms?: number;
}

interface Step {
  readonly when: "pending" | "running" | "presenting" | "done";
  readonly do: string;
  /** Owner of the operator's key. Default: the workspace's admin key. */
  readonly as?: string;
  readonly note?: string;
  readonly arguments?: Args;
  readonly mandate?: object;
}

interface WantedError {
  readonly kind: "blocked" | "claimed" | "timeout" | "stopped" | "request" | "cancelled" | "option";
  readonly decision?: "block" | "escalate" | null;
  readonly code?: string | readonly string[];
  readonly reason?: string | null;
  readonly change?: string;
  readonly option?: "address" | "key";
  readonly note?: string | null;
  readonly says?: readonly string[];
}

interface Want {
  readonly ran: number;
  readonly ran_with?: Args;
  readonly outcome: "returned" | "pending" | "error";
  readonly error?: WantedError;
  readonly unchecked?: number;
  readonly decisions: readonly string[];
  readonly would_decide?: readonly string[];
  readonly escalation?: object;
  readonly reported?: string;
}

/** Reads the scenarios. */
export function readScenarios(): readonly Scenario[] {
  const path = join(import.meta.dirname, "..", "testdata", "client", "scenarios.json");
  return (JSON.parse(readFileSync(path, "utf8")) as { readonly scenarios: readonly Scenario[] }).scenarios;
}

/** What the scenarios use of a library. */
export type Library = Pick<ControlPlane, "guard" | "close">;

/** Connects a library to a service. */
export type Connect = (addresses: Addresses, apiKey: string) => Library;

/** The library of this language, by its ways to the service. */
export const CONNECT: Readonly<Record<"Connect" | "gRPC", Connect>> = {
  Connect: ({ baseUrl }, apiKey) => createControlPlane({ baseUrl, apiKey }),
  gRPC: ({ baseUrl, grpcUrl }, apiKey) => createNodeControlPlane({ baseUrl, grpcUrl, apiKey }),
};

/** Runs one scenario in a workspace of its own, and checks what it wants. */
export async function runScenario(service: TestService, connect: Connect, scenario: Scenario): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  const world = await createWorld(service, scenario.given ?? {});
  const network = await openNetworkOf(service, scenario);
  cleanup.defer(() => network.close());
  const attempt = new Attempt(scenario, world, network);
  try {
    await attempt.run(connect, cleanup);
  } catch (error) {
    attempt.error = error;
  }
  await attempt.check();
}

/** A workspace with an actor. */
interface World {
  readonly agentId: string;
  readonly principalId: string | undefined;
  readonly sessionId: string | undefined;
  /** The key that the library uses. */
  readonly key: string;
  /** Calls the service over REST with the workspace's admin key, or another one. */
  rest(request: string, body?: object, key?: string): Promise<Json>;
  /** Makes an operator's key of an owner. */
  keyOf(owner: string): Promise<string>;
}

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes, read by name
type Json = any;

async function createWorld({ http, rest: host }: TestService, given: Given): Promise<World> {
  const workspaceId = `s${randomUUID()}`;
  const { secret } = (await host("POST /v1/admin/workspaces", {
    workspace_id: workspaceId,
    ...given.settings,
  })) as Json;
  const rest: World["rest"] = async (request, body, key = secret) => {
    const [method = "", path = ""] = request.split(" ");
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const response = await fetch(http + path, init);
    if (!response.ok) throw new Error(`${request} answered ${response.status}: ${await response.text()}`);
    return await response.json();
  };
  const newAgent = async (name: string): Promise<string> =>
    (await rest("POST /v1/enforce/agents", { name })).agent.agent_id;
  for (const tool of given.tools ?? []) await rest("POST /v1/enforce/tools", tool);
  for (const mandate of given.mandates ?? []) await rest("POST /v1/enforce/mandates", mandate);
  const agentId = await newAgent("actor");
  let principalId: string | undefined;
  if (given.principal !== undefined) {
    principalId = await newAgent("principal");
    const grant = { grantor_agent_id: principalId, grantee_agent_id: agentId, action_types: given.principal.lends };
    await rest("POST /v1/enforce/grants", grant);
  }
  const sessionId = given.session
    ? (await rest("POST /v1/enforce/sessions", { agent_id: agentId })).session.session_id
    : undefined;
  const newKey = async (body: object): Promise<string> =>
    (await rest("POST /v1/admin/keys", { name: "library", ...body })).secret;
  const keys: Record<Key, () => Promise<string> | string> = {
    bound: () => newKey({ role: "agent", agent_id: agentId }),
    operator: () => newKey({ role: "operator" }),
    unknown: () => "k".repeat(40),
    empty: () => "",
  };
  const key = await keys[given.key ?? "bound"]();
  if (given.agent_status === "revoked") await rest(`POST /v1/enforce/agents/${agentId}/revoke`, {});
  const keyOf = (owner: string): Promise<string> => newKey({ role: "operator", owner });
  return { agentId, principalId, sessionId, key, rest, keyOf };
}

function openNetworkOf({ http, grpc }: TestService, { given }: Scenario): Promise<Network> {
  return openNetwork({ http: new URL(http).host, grpc }, given?.network);
}

type Addresses = Pick<Network, "baseUrl" | "grpcUrl">;

const ADDRESSES: Readonly<Record<NonNullable<Given["address"]>, (network: Network) => Addresses>> = {
  malformed: () => ({ baseUrl: "not an address", grpcUrl: "not an address" }),
  bare: () => ({ baseUrl: "localhost", grpcUrl: "localhost" }),
  host_and_port: ({ baseUrl, grpcUrl }) => ({
    baseUrl: baseUrl.replace("http://", ""),
    grpcUrl: grpcUrl.replace("http://", ""),
  }),
};

/** The guarded call of a scenario, and what came of it. */
class Attempt {
  error: unknown = undefined;
  #result: unknown = undefined;
  readonly #runs: Args[] = [];
  #unchecked = 0;
  /** Number of times that the library has read the arguments. */
  #reads = 0;
  readonly #presenting = Promise.withResolvers<void>();
  readonly #running = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  readonly #leaving = new AbortController();
  readonly #scenario: Scenario;
  readonly #world: World;
  readonly #network: Network;
  readonly #args: Args;

  constructor(scenario: Scenario, world: World, network: Network) {
    this.#scenario = scenario;
    this.#world = world;
    this.#network = network;
    this.#args = { ...(scenario.call.arguments ?? { amount: 10 }) };
  }

  async run(connect: Connect, cleanup: AsyncDisposableStack): Promise<void> {
    const { given, call, meanwhile = [] } = this.#scenario;
    const addresses = given?.address === undefined ? this.#network : ADDRESSES[given.address](this.#network);
    const controlPlane = connect(addresses, this.#world.key);
    cleanup.defer(() => controlPlane.close());
    const escalationId = call.presents_approval ? await this.#approved(controlPlane) : undefined;
    const requestId = call.request_id === "same" ? randomUUID() : undefined;
    if (call.cancelled) this.#leaving.abort(CANCELLED);
    const guarded = this.#guard(controlPlane).with({
      signal: this.#leaving.signal,
      sessionId: this.#world.sessionId,
      onBehalfOf: this.#world.principalId,
      escalationId,
      requestId,
    });
    for (let left = call.repeat ?? 1; left > 1; left--) await guarded(this.#args);
    const outcome = guarded(this.#args).finally(() => this.#over.resolve());
    outcome.catch(() => undefined);
    for (const step of meanwhile) await this.#do(step);
    this.#result = await outcome;
  }

  #guard(controlPlane: Library, wait = this.#scenario.call.wait_on_escalate ?? true) {
    const { call } = this.#scenario;
    const run = async (args: Args): Promise<string> => {
      this.#runs.push(structuredClone(args));
      this.#running.resolve();
      if (call.function === "runs_on") await this.#over.promise;
      return "ran";
    };
    const options: Omit<GuardOptions<[Args]>, "acceptEdits" | "waitOnEscalate"> = {
      agentId: this.#world.agentId,
      actionType: call.action_type ?? "pay",
      tool: call.tool,
      toArguments: (args) => {
        this.#reads += 1;
        const step = this.#reads === 2 ? this.#stepWhen("presenting") : undefined;
        // A library of this language does not wait here, but the network is down by then.
        if (step !== undefined) void this.#run(step).then(() => this.#presenting.resolve());
        return args;
      },
      escalationTimeout: call.escalation_timeout,
      escalationPollInterval: call.escalation_poll_interval,
      onUnreachable: call.on_unreachable,
      onUnchecked: () => {
        this.#unchecked += 1;
      },
      timeoutMs: call.timeout_ms,
    };
    if (!wait) return controlPlane.guard(run, { ...options, waitOnEscalate: false });
    if (!call.accept_edits) return controlPlane.guard(run, options);
    const editable: EditableGuardOptions<[Args]> = {
      ...options,
      acceptEdits: true,
      fromArguments: (edited) => [{ ...edited }],
    };
    return controlPlane.guard(run, editable);
  }

  /** Has the action escalated and approved; gives the escalation. */
  async #approved(controlPlane: Library): Promise<string> {
    const pending = await this.#guard(controlPlane, false)(this.#args);
    if (!(pending instanceof PendingApproval)) throw new Error("the action did not escalate");
    await this.#resolve(pending.escalationId, "approved");
    return pending.escalationId;
  }

  #stepWhen(when: Step["when"]): Step | undefined {
    return this.#scenario.meanwhile?.find((step) => step.when === when);
  }

  async #do(step: Step): Promise<void> {
    // Done by the library's own call.
    if (step.when === "presenting") return await this.#presenting.promise;
    if (step.when === "running") await Promise.race([this.#running.promise, this.#over.promise]);
    if (step.when === "pending") {
      await until(async () => (await this.#firstEscalation())?.status === "pending");
      // The answer that names the escalation is still on its way to the library.
      await pause(ANSWER_MS);
    }
    await this.#run(step);
  }

  async #run(step: Step): Promise<void> {
    const { rest, agentId, sessionId, key, keyOf } = this.#world;
    const by = step.as === undefined ? undefined : await keyOf(step.as);
    const resolve = async (escalation: Json, resolution: string): Promise<Json> =>
      this.#resolve(escalation.escalation_id, resolution, step.note, by);
    const path = async () => `/v1/enforce/escalations/${(await this.#firstEscalation()).escalation_id}`;
    const steps: Readonly<Record<string, () => unknown>> = {
      approve: async () => resolve(await this.#firstEscalation(), "approved"),
      reject: async () => resolve(await this.#firstEscalation(), "rejected"),
      edit: async () => rest(`POST ${await path()}/edit`, { arguments: step.arguments }, by),
      approve_edit: async () => resolve(await this.#editedEscalation(), "approved"),
      reject_edit: async () => resolve(await this.#editedEscalation(), "rejected"),
      withdraw: async () => rest(`POST ${await path()}/withdraw`, {}, key),
      publish: () => rest("POST /v1/enforce/mandates", step.mandate),
      revoke: () => rest(`POST /v1/enforce/agents/${agentId}/revoke`, {}),
      end_session: () => rest(`DELETE /v1/enforce/sessions/${sessionId}`),
      change_arguments: () => Object.assign(this.#args, step.arguments),
      cancel: () => this.#leaving.abort(CANCELLED),
      break_connections: () => this.#network.breakConnections(),
      take_down: () => this.#network.takeDown(),
    };
    const run = steps[step.do];
    if (run === undefined) throw new Error(`no step \`${step.do}\``);
    await run();
  }

  #resolve(escalationId: string, resolution: string, note?: string, key?: string): Promise<Json> {
    return this.#world.rest(`POST /v1/enforce/escalations/${escalationId}/resolve`, { resolution, note }, key);
  }

  /** Gives the escalation of the edited action, once the library has had the time to find out about the edit. */
  async #editedEscalation(): Promise<Json> {
    await pause(ANSWER_MS);
    const { replaced_by } = await this.#firstEscalation();
    return { escalation_id: replaced_by };
  }

  async #firstEscalation(): Promise<Json> {
    const { escalations } = await this.#world.rest(`GET /v1/enforce/escalations?agent_id=${this.#world.agentId}`);
    return escalations.at(-1);
  }

  async #decisions(): Promise<Json[]> {
    const { decisions } = await this.#world.rest(`GET /v1/enforce/decisions?agent_id=${this.#world.agentId}`);
    return decisions.toReversed();
  }

  async check(): Promise<void> {
    const { want, call } = this.#scenario;
    const { error } = this;
    expect(this.#outcome(), String(error)).to.equal(want.outcome);
    if (want.error !== undefined) checkError(error, want.error);
    expect(this.#runs.length, "runs").to.equal(want.ran);
    if (want.ran > 0) expect(this.#runs.at(-1)).to.deep.equal(want.ran_with ?? call.arguments ?? { amount: 10 });
    expect(this.#unchecked, "runs unchecked").to.equal(want.unchecked ?? 0);
    await this.#checkLog();
    if (want.escalation === undefined) expect(await this.#firstEscalation()).to.equal(undefined);
    else await eventually(want.escalation, () => this.#firstEscalation());
  }

  #outcome(): Want["outcome"] {
    if (this.error !== undefined) return "error";
    if (this.#result instanceof PendingApproval) return "pending";
    expect(this.#result).to.equal("ran");
    return "returned";
  }

  async #checkLog(): Promise<void> {
    const { decisions: want, would_decide: observed = [] } = this.#scenario.want;
    const read = async () => {
      const decisions = await this.#decisions();
      return { decisions: decisions.map(({ decision, decision_path: path }) => `${decision}/${path}`) };
    };
    await eventually({ decisions: want }, read);
    const last = (await this.#decisions()).at(-1);
    if (last === undefined) return;
    const { reported } = this.#scenario.want;
    if (reported !== undefined)
      await eventually({ status: reported }, async () => (await this.#decisions()).at(-1).outcome ?? {});
    const { receipt } = await this.#world.rest(`GET /v1/enforce/decisions/${last.decision_id}`);
    expect(receipt.observed.map((each: Json) => each.would_decide)).to.deep.equal(observed);
  }
}

const CANCELLED = new Error("the caller gave up");
/** Milliseconds after which something that is read again and again counts as wrong. */
const PATIENCE_MS = 5_000;
/** Milliseconds that an answer of the control plane takes to reach the library, with room to spare. */
const ANSWER_MS = 200;

/** Reads until what is read has the wanted members; fails with the difference when it never has. */
async function eventually(want: object, read: () => Promise<object>): Promise<void> {
  const endsAt = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await read();
    try {
      expect(found).to.deep.include(want);
      return;
    } catch (error) {
      if (performance.now() > endsAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

const KINDS: Readonly<Record<WantedError["kind"], (error: unknown) => boolean>> = {
  blocked: (error) =>
    error instanceof AgentBlockedError &&
    !(error instanceof AlreadyClaimedError) &&
    !(error instanceof EscalationTimeoutError) &&
    !(error instanceof AgentStoppedError),
  claimed: (error) => error instanceof AlreadyClaimedError,
  timeout: (error) => error instanceof EscalationTimeoutError,
  stopped: (error) => error instanceof AgentStoppedError,
  request: (error) => error instanceof ControlPlaneRequestError,
  cancelled: (error) => error === CANCELLED,
  option: (error) => error instanceof TypeError,
};

const OPTIONS = { address: /`(baseUrl|grpcUrl|url)`/, key: /`(apiKey|api_key)`/ };

function checkError(error: unknown, want: WantedError): void {
  const { message } = error as Error;
  expect(KINDS[want.kind](error), `${want.kind}, not ${(error as Error).name}: ${message}`).to.equal(true);
  const members = error as Readonly<Record<string, unknown>>;
  for (const name of ["decision", "reason", "change", "note"] as const)
    if (want[name] !== undefined) expect(members[name], name).to.equal(want[name]);
  const fault = want.kind === "request" ? members : (members.cause as typeof members | undefined);
  if (want.code !== undefined) expect([want.code].flat()).to.include(fault?.code);
  if (want.option !== undefined) expect(message).to.match(OPTIONS[want.option]);
  for (const text of want.says ?? []) expect(message.toLowerCase()).to.contain(text.toLowerCase());
}
