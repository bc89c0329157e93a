import type { JsonObject } from "@bufbuild/protobuf";
import type { SharedPot } from "../async/shared-pot.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { Escalation } from "../escalation/escalation.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { NOT_SENT } from "./call-end.ts";
import type { DefinitionLists } from "./definition-lists.ts";
import { upstreamUnavailable } from "./endpoint.ts";
import { type Exchange, envelopeOf, type Forwarding, inGeneration, noteFault } from "./exchange.ts";
import { encodedHeader, repeatedHeaders } from "./headers.ts";
import {
  createError,
  createResult,
  errorFromFault,
  isResponse,
  RPC_CODES,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
} from "./messages.ts";
import { type ObservedResults, sessionIdOf } from "./observed-results.ts";
import type { CallOutcome, OutcomeReports } from "./outcome-reports.ts";
import type { Answer } from "./reply.ts";
import { OWN_TASK_MARK, unknownTask } from "./server-tasks.ts";
import type { McpEnds } from "./session-ends.ts";
import { OpenCall } from "./sessions.ts";
import { KEPT_MS, type TaskRun, TaskRuns } from "./task-runs.ts";
import type { ToolCallOutcome, ToolCalls } from "./tool-calls.ts";
import { escalationPage, rejectedResult } from "./tool-results.ts";

/** Extension with which a client declares that it accepts a task instead of a result. */
const EXTENSION = "io.modelcontextprotocol/tasks";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
/** Polling interval in milliseconds of a task that waits for a person, and of a task whose call is running. */
const POLL_WAITING_MS = 2_000;
const POLL_RUNNING_MS = 1_000;
const REQUEST_ID = "gateway-task";

/** Parts and settings of `EscalationTasks`. */
export interface EscalationTasksOptions {
  readonly calls: Pick<ToolCalls, "escalation" | "standing" | "resume" | "withdraw">;
  readonly lists: Pick<DefinitionLists, "tool">;
  readonly forwarding: Pick<Forwarding, "giveWay" | "send" | "relay">;
  readonly observed: Pick<ObservedResults, "stepOf">;
  readonly ends: Pick<McpEnds, "watch">;
  readonly outcomes: Pick<OutcomeReports, "outcomeOf">;
  readonly log: Parameters<typeof noteFault>[0];
  /** Pot of the bytes of outcomes. */
  readonly pot: SharedPot;
  /** Counts the outcome of a call. */
  readonly onOutcome: (outcome: ToolCallOutcome) => void;
}

/** Status-dependent members of a task. */
type Status =
  | { readonly status: "working" | "cancelled"; readonly statusMessage: string }
  | { readonly status: "completed"; readonly result: JsonObject }
  | { readonly status: "failed"; readonly statusMessage: string; readonly error: JsonObject };

/** The escalation that is a task, and the one that stands in its place once it was edited; otherwise the same. */
interface TaskEscalations {
  readonly task: Escalation;
  readonly standing: Escalation;
}

type Run = TaskRun<Status>;

/**
 * Tasks for calls that wait for a person, in the form of the 2026-07-28 extension. A task is stored as its escalation, so it
 * survives the process and belongs to the agent. The call is made when the client asks for the task after the approval, so it is
 * never made for a client that is gone. Its result is kept in this process.
 */
export class EscalationTasks {
  readonly #options: EscalationTasksOptions;
  readonly #runs: TaskRuns<Status>;

  constructor(options: EscalationTasksOptions) {
    this.#options = options;
    this.#runs = new TaskRuns(options.pot);
  }

  /** Tests whether a client accepts a task instead of a result. */
  isDeclared({ generation }: Exchange, { params = {} }: RpcRequest): boolean {
    if (generation !== "stateless") return false;
    const extensions = ownValue(objectAt(objectAt(params, "_meta"), CAPABILITIES), "extensions");
    return isJsonObject(extensions) && isJsonObject(ownValue(extensions, EXTENSION));
  }

  /** Tests whether a request is about a task of the gateway's own. */
  isOwn({ generation }: Exchange, { method, params = {} }: RpcRequest): boolean {
    const taskId = ownValue(params, "taskId");
    return (
      generation === "stateless" &&
      ["tasks/get", "tasks/update", "tasks/cancel"].includes(method) &&
      typeof taskId === "string" &&
      taskId.startsWith(OWN_TASK_MARK)
    );
  }

  /** Declares the extension in the response to `server/discover`. */
  declare(response: RpcResponse): RpcResponse {
    if (response.result === undefined) return response;
    const capabilities = objectAt(response.result, "capabilities");
    const extensions = { ...objectAt(capabilities, "extensions"), [EXTENSION]: {} };
    return { ...response, result: { ...response.result, capabilities: { ...capabilities, extensions } } };
  }

  /** Creates the result that gives a client the task of an escalation. */
  async create({ caller, publicUrl }: Exchange, escalationId: string, meta: JsonObject): Promise<JsonObject> {
    const escalation = await this.#options.calls.escalation(caller, escalationId);
    const view = this.#view({ task: escalation, standing: escalation }, waiting(escalation, publicUrl));
    return { ...view, resultType: "task", _meta: meta };
  }

  /** Answers a request about a task of the gateway's own. */
  async answer(exchange: Exchange, request: RpcRequest): Promise<RpcResponse> {
    const { id, method, params = {} } = request;
    if (!this.isDeclared(exchange, request)) {
      const requiredCapabilities = { extensions: { [EXTENSION]: {} } };
      const text = `the client does not declare the capability \`${EXTENSION}\``;
      return createError(id, RPC_CODES.missingCapability, text, { requiredCapabilities });
    }
    const task = await this.#find(exchange, ownValue(params, "taskId") as string);
    if (task === undefined) {
      return unknownTask(id);
    }
    const found = { task, standing: await this.#options.calls.standing(exchange.caller, task) };
    if (method === "tasks/cancel") await this.#cancel(exchange, found);
    // Tasks do not ask for input, so any input is ignored.
    const result = method === "tasks/get" ? await this.#get(exchange, found, params) : {};
    return this.#observed(exchange, request, found, createResult(id, { ...result, resultType: "complete" }));
  }

  /** Has the session that asks for a task observe its result. The session of the call has observed it before it was kept. */
  async #observed(
    exchange: Exchange,
    request: RpcRequest,
    { standing }: TaskEscalations,
    response: RpcResponse,
  ): Promise<RpcResponse> {
    const isEnded = ["result", "error"].some((member) => ownValue(response.result ?? {}, member) !== undefined);
    const isOfCall = sessionIdOf(exchange) === (standing.receipt.body.session_id ?? undefined);
    if (!isEnded || isOfCall) return response;
    const call = new OpenCall(request, exchange.ending);
    return (await this.#options.observed.stepOf(exchange, call, undefined)?.(response)) ?? response;
  }

  /** Ends every call in flight. */
  close(reason: unknown): void {
    this.#runs.close(reason);
  }

  async #find({ caller, server }: Exchange, taskId: string): Promise<Escalation | undefined> {
    try {
      const escalation = await this.#options.calls.escalation(caller, taskId.slice(OWN_TASK_MARK.length));
      return ownValue(metadataOf(escalation), "mcp_server") === server.name ? escalation : undefined;
    } catch (error) {
      if (error instanceof ControlPlaneError && error.reason === ErrorReason.ESCALATION_NOT_FOUND) return undefined;
      throw error;
    }
  }

  async #get(exchange: Exchange, found: TaskEscalations, params: JsonObject): Promise<JsonObject> {
    const key = keyOf(exchange, found.task);
    const run = this.#runs.get(key) ?? this.#begin(key, exchange, found.standing, params);
    if (run === undefined) return this.#view(found, waiting(found.standing, exchange.publicUrl));
    return this.#view(found, run.status, run.changedAtMs);
  }

  /** Begins the call after an approval, or returns its final state without a call. Undefined for a pending escalation. */
  #begin(key: string, exchange: Exchange, escalation: Escalation, params: JsonObject): Run | undefined {
    if (escalation.status === "pending") return undefined;
    const run: Run = { ending: new AbortController(), status: RUNNING, changedAtMs: Date.now() };
    if (escalation.status === "rejected" && escalation.editedArguments === null) {
      return { ...run, status: rejection(escalation) };
    }
    this.#runs.begin(exchange.caller, key, run);
    void this.#make(run, exchange, escalation, params)
      .catch((error: unknown) => {
        noteFault(this.#options.log, exchange.server, error);
        return run.ending.signal.aborted && run.status === CANCELLED
          ? CANCELLED
          : failure(errorFromFault(REQUEST_ID, error));
      })
      .then((status) => this.#runs.end(key, status, LOST));
    return run;
  }

  /** Makes the call of an approved task once. */
  async #make(run: Run, exchange: Exchange, escalation: Escalation, params: JsonObject): Promise<Status> {
    const { calls, lists, ends, onOutcome, forwarding, outcomes, observed } = this.#options;
    const { caller, server } = exchange;
    const { ending } = run;
    const tool = upstreamToolName(exchange, escalation);
    const args = objectAt(metadataOf(escalation), "arguments");
    // The session of the call that was escalated, whichever its client names now.
    const namedSession = escalation.receipt.body.session_id ?? undefined;
    const own = { ...exchange, namedSession, bytes: sizeOf(escalation), ending };
    const unwatch = await ends.watch(caller, (reason) => ending.abort(reason));
    let reported: CallOutcome | undefined;
    try {
      const outcome = await calls.resume(
        {
          server,
          caller,
          sessionId: namedSession,
          tool,
          arguments: args,
          bytes: own.bytes,
          trace: exchange.trace,
          signal: ending.signal,
          known: undefined,
          onHeld: undefined,
          publicUrl: exchange.publicUrl,
          isTask: true,
          digestOf: (digest) => digest,
          review: (age) => lists.tool(own, params, tool, age),
        },
        escalation,
      );
      onOutcome(outcome);
      if (outcome.kind === "answer") return { status: "completed", result: inGeneration("stateless", outcome.result) };
      reported = outcomes.outcomeOf(caller, [outcome.sealed]);
      await forwarding.giveWay(own);
      ending.signal.throwIfAborted();
      const request: RpcRequest = {
        jsonrpc: "2.0",
        id: REQUEST_ID,
        method: "tools/call",
        params: { name: tool, arguments: outcome.arguments, _meta: plainEnvelope(params) },
      };
      const { "mcp-method": _, "mcp-name": __, ...headers } = exchange.headers;
      const named = { "mcp-method": "tools/call", "mcp-name": encodedHeader(tool) };
      const repeated = repeatedHeaders(undefined, outcome.repeated, outcome.arguments);
      const kept = new KeptAnswer();
      const forwarded = { ...own, headers: { ...headers, ...named, ...repeated }, reply: kept };
      const call = new OpenCall(request, ending);
      call.isForwarded = true;
      call.outcome = reported;
      call.observe = observed.stepOf(forwarded, call, outcome.sealed.decisionId);
      reported = undefined;
      await forwarding.relay(forwarded, () => forwarding.send(forwarded, request, call), call);
      return statusFrom(server.name, kept.response);
    } finally {
      reported?.end(NOT_SENT);
      unwatch();
    }
  }

  async #cancel(exchange: Exchange, { task, standing }: TaskEscalations): Promise<void> {
    const key = keyOf(exchange, task);
    const run = this.#runs.running(key);
    if (run !== undefined) {
      run.status = CANCELLED;
      run.ending.abort(new ControlPlaneError(ErrorReason.CANCELLED, "the client cancelled the task"));
    } else if (standing.status === "pending") {
      await this.#options.calls.withdraw(exchange.caller, standing.escalationId);
    } else if (this.#runs.get(key) === undefined) {
      this.#runs.begin(exchange.caller, key, {
        ending: new AbortController(),
        status: CANCELLED,
        changedAtMs: Date.now(),
      });
      this.#runs.end(key, CANCELLED, CANCELLED);
    }
  }

  #view({ task, standing }: TaskEscalations, status: Status, changedAtMs?: number): JsonObject {
    const { escalationId, receipt } = task;
    const { expiresAtMs, resolvedAtMs } = standing;
    const createdAtMs = Date.parse(receipt.body.at);
    const changed = Math.max(createdAtMs, changedAtMs ?? 0, resolvedAtMs ?? 0);
    const lastUpdatedAt = new Date(changed).toISOString();
    const until = Math.max(expiresAtMs, changed + KEPT_MS);
    return {
      taskId: `${OWN_TASK_MARK}${escalationId}`,
      createdAt: receipt.body.at,
      lastUpdatedAt,
      ttlMs: Math.round(until - createdAtMs),
      pollIntervalMs: standing.status === "pending" ? POLL_WAITING_MS : POLL_RUNNING_MS,
      ...status,
    };
  }
}

function waiting({ escalationId, status }: Escalation, publicUrl: string | undefined): Status {
  if (status !== "pending") return RUNNING;
  const page = escalationPage(publicUrl, { escalationId });
  const where = page === undefined ? "" : ` at ${page}`;
  return { status: "working", statusMessage: `waiting for a person to approve escalation ${escalationId}${where}` };
}

const RUNNING: Status = { status: "working", statusMessage: "the call is approved and running" };
const CANCELLED: Status = { status: "cancelled", statusMessage: "the task was cancelled" };
const LOST: Status = failure(
  createError(
    REQUEST_ID,
    RPC_CODES.server,
    "the call was made, but its result is lost: the workspace or agent holds its share of results of tasks; let fewer calls run as tasks at once",
  ),
);

/** Keeps a server's response for a client that asks later. Drops notifications of the call. */
class KeptAnswer implements Answer {
  response: RpcResponse | undefined;
  readonly hasBegun = false;

  get isOver(): boolean {
    return this.response !== undefined;
  }

  async event(): Promise<void> {}

  async message(message: RpcMessage): Promise<void> {
    if (isResponse(message)) this.response ??= message;
  }

  async finish(message: RpcMessage): Promise<void> {
    await this.message(message);
  }

  async delivered(): Promise<boolean> {
    return this.isOver;
  }
  async retry(): Promise<void> {}
  setHeader(): void {}
  beginStream(): void {}
  text(): void {}
  end(): void {}
}

/**
 * Converts a server's response to a status. The server's own task or request for input cannot continue within the gateway's task.
 */
function statusFrom(server: string, response: RpcResponse | undefined): Status {
  if (response?.result === undefined) {
    return failure(response ?? errorFromFault(REQUEST_ID, upstreamUnavailable(server, "did not answer")));
  }
  const type = ownValue(response.result, "resultType") ?? "complete";
  if (type === "complete") return { status: "completed", result: response.result };
  return failure(
    createError(
      REQUEST_ID,
      RPC_CODES.server,
      `MCP server \`${server}\` needs input, which a task of an approved call cannot give`,
    ),
  );
}

function failure({ error }: RpcResponse): Status {
  return { status: "failed", statusMessage: error?.message ?? "", error: { ...error } as JsonObject };
}

function rejection(escalation: Escalation): Status {
  if (escalation.resolvedBy === "withdrawal") return CANCELLED;
  const { receipt, escalationId } = escalation;
  const { decision_id, decision, action } = receipt.body;
  const meta = { decision, decision_id, escalation_id: escalationId };
  const result = rejectedResult(action.tool ?? action.action_type, meta, escalation);
  return { status: "completed", result: inGeneration("stateless", result) };
}

const keyOf = ({ caller }: Exchange, { escalationId }: Escalation): string => `${caller.workspaceId} ${escalationId}`;

const metadataOf = ({ receipt }: Escalation): JsonObject => receipt.body.action.metadata ?? {};

/** Returns the size in characters of an action's arguments, original or edited, whichever is larger. */
const sizeOf = ({ receipt, editedArguments }: Escalation): number =>
  Math.max(receipt.body.action.action_content.length, editedArguments?.length ?? 0);

/** Returns the server's own name of the tool. */
function upstreamToolName({ server }: Exchange, { receipt }: Escalation): string {
  const { tool, action_type } = receipt.body.action;
  return (tool ?? action_type).slice(server.name.length + 1);
}

function objectAt(value: JsonObject, member: string): JsonObject {
  const found = ownValue(value, member);
  return isJsonObject(found) ? found : {};
}

/** Returns the version and capabilities of a client, reduced to what a plain result needs. */
function plainEnvelope(params: JsonObject): JsonObject {
  const envelope = envelopeOf(params);
  const { elicitation: _, sampling: __, roots: ___, ...capabilities } = objectAt(envelope, CAPABILITIES);
  const { [EXTENSION]: ____, ...extensions } = objectAt(capabilities, "extensions");
  return { ...envelope, [CAPABILITIES]: { ...capabilities, extensions } };
}
