import { createHmac } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Logger } from "pino";
import type { Portion, SharedPot } from "../async/shared-pot.ts";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason, invalidField } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Observe } from "../observation/observe.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { cancelled, methodNotAllowed, type OutageReport, reportFault } from "../server/errors.ts";
import { createHeldBytes, maxHeldBytesFor, WAITING_OVERHEAD } from "../server/held-bytes.ts";
import type { HttpRoute } from "../server/http.ts";
import { headerOf, sendError, sendJson } from "../server/http-reply.ts";
import { requestIdFrom } from "../server/incoming-call.ts";
import type { LargeRequests } from "../server/large-requests.ts";
import type { CountCall } from "../server/rate-limits.ts";
import type { NoteRefusal } from "../server/refusals.ts";
import { readRequestJson } from "../server/request-json.ts";
import { readJsonBody } from "../server/rest/request.ts";
import { assertStorableJson } from "../server/validation.ts";
import type { DecisionPath, SealedDecision } from "../state/types.ts";
import { type TracePlace, traceContextFrom } from "../tracing/trace-context.ts";
import type { Tracing } from "../tracing/tracing.ts";
import type { CallEnd } from "./call-end.ts";
import { keyOf, type McpCaller, type McpCallers } from "./caller.ts";
import type { HeldAction, HeldActions, HeldOutcome } from "./held-actions.ts";
import type { HookCallName, HookCalls } from "./hook-calls.ts";
import { contentOfEvent } from "./hook-content.ts";
import type { HookSessions } from "./hook-sessions.ts";
import { observeResult, observerOf } from "./observed-results.ts";
import type { OutcomeReports } from "./outcome-reports.ts";
import { contentFrom } from "./result-content.ts";
import type { McpEnds } from "./session-ends.ts";
import { blockedText, decisionMeta, escalationPage, pendingText, rejectedText } from "./tool-results.ts";

/** Supported coding agents, by the last part of the path. */
type CodingAgent = "claude-code" | "codex";

/** Parts and settings of the hooks. */
export interface CodingAgentHooksOptions {
  readonly held: Pick<HeldActions, "decide">;
  readonly outcomes: Pick<OutcomeReports, "report">;
  readonly calls: Pick<HookCalls, "note" | "take">;
  readonly sessions: Pick<HookSessions, "sessionOf">;
  readonly observe: Observe;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly callers: Pick<McpCallers, "identify">;
  readonly ends: Pick<McpEnds, "watch">;
  /** Counts a call before its body is read. Throws RATE_LIMITED. */
  readonly countCall: CountCall;
  /** Queue for large events. */
  readonly largeRequests: Pick<LargeRequests, "giveWay">;
  readonly log: Logger;
  /** Watch that faults of the database are reported to, in place of a line for each. Default: a line for each. */
  readonly outage?: OutageReport | undefined;
  /** Logs refused calls. */
  readonly noteRefusal: NoteRefusal;
  /** Records every event as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
  /** Base URL of the dashboard's pages; undefined if it is unknown. */
  readonly publicUrl: string | undefined;
  /** Maximum bytes of an event. */
  readonly maxBodyBytes: number;
  /** Bytes of events that workspaces share. Default 256 MiB, or eight of the largest. */
  readonly maxHeldBytes?: number | undefined;
}

/** A call of a hook. */
interface HookCall {
  readonly client: CodingAgent;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly caller: McpCaller;
  readonly trace: TracePlace | undefined;
}

/** The part of a `PreToolUse` event that the decision needs. */
interface ToolEvent {
  readonly tool: string;
  /** Name under which the event after the tool reports the call; undefined if the client gives it none. */
  readonly call: HookCallName | undefined;
  /** Session of the agent; undefined for a client that names none, and for an agent that may begin none. */
  readonly sessionId: string | undefined;
  readonly input: JsonObject;
  /** Members of the event that rules may read, such as the working directory. */
  readonly about: JsonObject;
}

/** Answer to a coding agent. `none` leaves the call to the client's own rules and to the person at the terminal. */
type Answer =
  | { readonly kind: "none" }
  | { readonly kind: "allow"; readonly editedInput: JsonObject | undefined }
  | { readonly kind: "deny" | "ask"; readonly reason: string }
  /** A prompt does not reach the model. */
  | { readonly kind: "refuse"; readonly reason: string };

/** An answer with the decision that it comes from; a fault has no decision. */
interface Reply {
  readonly answer: Answer;
  readonly decided?: { readonly agentId: string; readonly sealed: SealedDecision };
}

/** Settings of one hook, from the query of its URL. */
interface HookSettings {
  readonly holdMs: number;
  /** Answer if nobody approves in time. */
  readonly whenPending: "deny" | "ask";
  /** The report of an allowed call: by an event after the tool, at once because no tool runs, or never. */
  readonly outcome: "reported" | "cancelled" | "none";
}

/** Fault of an event after a tool: it denies nothing, since the tool has run. */
class ReportFault extends Error {
  constructor(cause: unknown) {
    super("an outcome was not reported", { cause });
  }
}

/** Fault of a prompt, which then does not reach the model. */
class PromptFault extends Error {
  constructor(cause: unknown) {
    super("a prompt was not observed", { cause });
  }
}

const PREFIX = "/v1/hooks";
const PATH = /^(?:\/api)?\/v1\/hooks\/([a-z-]+)$/;
const EVENT = "PreToolUse";
/** Event before a prompt reaches the model. */
const PROMPT_EVENT = "UserPromptSubmit";
/** Events after a tool: it has ended, or it has failed. */
const AFTER_EVENTS: readonly unknown[] = ["PostToolUse", "PostToolUseFailure"];
/** Maximum characters of a session's and a call's id. */
const MAX_CALL_ID = 1_024;
const OUTCOMES: readonly string[] = ["reported", "cancelled", "none"];
const MAX_DEPTH = 64;
const DEFAULT_HOLD_SECONDS = 50;
const MAX_HOLD_SECONDS = 3_600;
/** Members of an event that become metadata of the action. */
const ABOUT = ["session_id", "cwd", "permission_mode", "agent_id", "agent_type"];
/** Name of an MCP server's tool in these clients. */
const MCP_TOOL = /^mcp__(.+?)__(.+)$/is;
/** Random text of a hook that wants its answer signed. Its fixed length keeps nonce and body apart under the signature. */
const NONCE_HEADER = "x-hook-nonce";
const NONCE = /^[0-9a-f]{64}$/;
const SIGNATURE_HEADER = "x-hook-signature";
/** Paths of an `allow` that a rule or a person gave. Any other `allow` means that nothing objects. */
const GIVEN_PATHS: readonly DecisionPath[] = ["policy", "approved"];

/**
 * Serves `POST /v1/hooks/claude-code` and `/v1/hooks/codex`: the hooks that these coding agents call before they run a tool
 * (event `PreToolUse`) and after it (`PostToolUse`, `PostToolUseFailure`), which reports how the tool ended and tells the session of the
 * agent what it answered, and when a person asks something (`UserPromptSubmit`), which the session observes as well.
 *
 * A call with `X-Hook-Nonce` gets `{output, decision}` with `X-Hook-Signature`, the HMAC-SHA-256 of nonce and body under the key
 * of the call; a key that is refused gets an error status and no signature. A call without it comes from an earlier form of the
 * hook: every response is then the output alone with status 200, and a fault is a denial with its reason, because the clients by
 * default run the tool after any other response.
 */
export class CodingAgentHooks {
  readonly #options: CodingAgentHooksOptions;
  /** Bytes of events that are read or held. */
  readonly #held: SharedPot;

  constructor(options: CodingAgentHooksOptions) {
    this.#options = options;
    this.#held = createHeldBytes("hook_bytes", options.maxHeldBytes ?? maxHeldBytesFor(options.maxBodyBytes));
  }

  get routes(): readonly HttpRoute[] {
    const handle: HttpRoute["handle"] = (request, response) => this.#handle(request, response);
    return [PREFIX, `/api${PREFIX}`].map((prefix) => ({ prefix, handle }));
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://host");
    const [, client = ""] = PATH.exec(pathname) ?? [];
    if (!isCodingAgent(client)) return false;
    if (request.method !== "POST") {
      request.resume();
      sendError(response, methodNotAllowed(request.method ?? "", "POST"));
      return true;
    }
    const nonce = headerOf(request, NONCE_HEADER);
    const given = traceContextFrom(headerOf(request, "traceparent"), headerOf(request, "tracestate"));
    const route = `${PREFIX}/${client}`;
    const attributes = { "http.request.method": "POST", "http.route": route };
    const span = this.#options.tracing?.start(`POST ${route}`, { kind: "server", parent: given, attributes });
    const trace = span?.isSampled === true ? span : given;
    response.once("close", () => {
      span?.set({ "http.response.status_code": response.statusCode });
      span?.end(response.statusCode >= 500 ? String(response.statusCode) : undefined);
    });
    try {
      const caller = await this.#identify(request, nonce);
      const reply = await this.#held
        .during(caller, (held) => this.#serve({ client, request, response, caller, trace }, searchParams, held))
        .catch((error: unknown) => {
          if (error instanceof ReportFault) throw error;
          if (error instanceof PromptFault) return this.#refusedPrompt(client, request, error.cause);
          return this.#denial(client, request, error);
        });
      send(response, client, reply, nonce === undefined ? undefined : { key: keyOf(request), nonce });
    } catch (error) {
      if (error instanceof ReportFault) {
        this.#note(client, request, error.cause);
        sendError(response, error.cause);
        return true;
      }
      const denial = this.#denial(client, request, error);
      if (nonce === undefined) send(response, client, denial, undefined);
      else sendError(response, error);
    }
    return true;
  }

  async #identify(request: IncomingMessage, nonce: string | undefined): Promise<McpCaller> {
    if (nonce !== undefined && !NONCE.test(nonce)) throw invalidField("X-Hook-Nonce", "must be 64 hexadecimal digits");
    const caller = await this.#options.callers.identify(request, undefined);
    await this.#options.countCall(caller);
    return caller;
  }

  async #serve(call: HookCall, query: URLSearchParams, held: Portion): Promise<Reply> {
    const { client, request, response, caller, trace } = call;
    const { ends, maxBodyBytes, publicUrl, outcomes, calls } = this.#options;
    const settings = settingsFrom(client, query);
    held.add(WAITING_OVERHEAD);
    const body = await readJsonBody(request, { maxBytes: maxBodyBytes }, (bytes) => held.add(bytes));
    const ending = new AbortController();
    response.once("close", () => {
      if (!response.writableFinished) ending.abort(cancelled());
    });
    const { workspaceId } = caller;
    const { signal } = ending;
    await this.#options.largeRequests.giveWay({
      workspaceId,
      agentId: caller.agentId,
      bytes: body.length,
      signal: ending.signal,
    });
    const { value, weight } = await readRequestJson(body, MAX_DEPTH);
    // Of these events nothing is stored but digests.
    if (isAfter(value)) return this.#report(call, value, signal);
    if (isPrompt(value)) return this.#observePrompt(call, value, signal);
    assertStorableJson(value, MAX_DEPTH);
    const event = eventFrom(client, value, await this.#sessionFor(call, value));
    const unwatch = await ends.watch(caller, (reason) => ending.abort(reason));
    try {
      const waiting = { caller, bytes: weight, trace, signal: ending.signal, holdMs: settings.holdMs };
      const isReported = settings.outcome === "reported" && event.call !== undefined;
      const action = actionOf(client, event, waiting);
      const marks = isReported ? {} : { reportsOutcome: false };
      const outcome = await this.#options.held.decide({ ...action, marks });
      const { sealed } = outcome;
      const decided = { agentId: caller.agentId, sealed };
      if (outcome.kind === "allowed" && sealed.isTracked) {
        if (settings.outcome === "cancelled") outcomes.report(caller, sealed.decisionId, NOT_RUN, "agent");
        else if (event.call !== undefined) await calls.note(caller, event.call, sealed.decisionId);
      }
      return { answer: answerFrom(outcome, event, settings, publicUrl), decided };
    } finally {
      unwatch();
    }
  }

  /** Returns the session of an event's agent; undefined where the decision refuses the agent, or the client names no session. */
  async #sessionFor({ client, caller }: HookCall, event: unknown): Promise<string | undefined> {
    const id = isJsonObject(event as JsonValue) ? clientSessionOf(event as JsonObject) : undefined;
    if (id === undefined || caller.isEnded) return undefined;
    try {
      return await this.#options.sessions.sessionOf(caller, { client, id });
    } catch (error) {
      if (AGENT_FAULTS.has(controlPlaneErrorFrom(error).reason)) return undefined;
      throw error;
    }
  }

  /** Has the agent's session observe what a person asks. Rejects with `PromptFault`. */
  async #observePrompt({ client, caller }: HookCall, event: JsonObject, signal: AbortSignal): Promise<Reply> {
    const { sessions, observe, logs } = this.#options;
    try {
      if (caller.isEnded) throw keyEnded();
      const [prompt, id] = [ownValue(event, "prompt"), clientSessionOf(event)];
      if (typeof prompt !== "string") throw invalidField("prompt", "is required, as text");
      if (id === undefined) throw invalidField("session_id", "must name the session of the client, as text");
      const content = await contentFrom(prompt, false);
      if (content === undefined) return NOTHING;
      const sessionId = await sessions.sessionOf(caller, { client, id });
      const isCut = content.isCut || ownValue(event, "is_cut") === true;
      const told = { ...content, isCut, sessionId, source: "prompt" as const, decisionId: undefined };
      await observe(await logs.of(caller.workspaceId), told, observerOf(caller, signal));
    } catch (error) {
      // The prompt then counts as nothing that the agent was asked: only an operator says that.
      if (controlPlaneErrorFrom(error).reason !== ErrorReason.PROMPT_FROM_OPERATOR) throw new PromptFault(error);
    }
    return NOTHING;
  }

  /**
   * Reports how a tool ended, as its client says, with the source `agent`: the client runs on the agent's own machine. An event that
   * names no call which waits for its outcome reports none. Then has the agent's session observe what the tool answered. Rejects with
   * `ReportFault`.
   */
  async #report({ client, caller }: HookCall, event: JsonObject, signal: AbortSignal): Promise<Reply> {
    try {
      if (caller.isEnded) throw keyEnded();
      const call = callOf(client, event);
      if (call === undefined) throw invalidField("tool_use_id", "must name the call that has ended, as text");
      const end = endFrom(event);
      const decisions = await this.#options.calls.take(caller, call);
      if (end !== undefined) {
        for (const decisionId of decisions) this.#options.outcomes.report(caller, decisionId, end, "agent");
      }
      const content = await contentOfEvent(event);
      if (content === undefined || call.sessionId === "") return NOTHING;
      const { sessions, observe, logs } = this.#options;
      const sessionId = await sessions.sessionOf(caller, { client, id: call.sessionId });
      const told = { content, sessionId, decisionId: decisions[0], caller, signal };
      await observeResult(observe, await logs.of(caller.workspaceId), told);
      return NOTHING;
    } catch (error) {
      throw new ReportFault(error);
    }
  }

  #denial(client: CodingAgent, request: IncomingMessage, error: unknown): Reply {
    const fault = this.#note(client, request, error);
    const reason = `The control plane could not decide: ${fault.message}. The tool did not run.`;
    return { answer: { kind: "deny", reason } };
  }

  #refusedPrompt(client: CodingAgent, request: IncomingMessage, error: unknown): Reply {
    const fault = this.#note(client, request, error);
    const reason = `The control plane could not observe the prompt: ${fault.message}. The model did not get it.`;
    return { answer: { kind: "refuse", reason } };
  }

  /** Notes a fault. Returns what its caller may know. */
  #note(client: CodingAgent, request: IncomingMessage, error: unknown): ControlPlaneError {
    const key = headerOf(request, "x-api-key");
    const requestId = requestIdFrom(headerOf(request, "x-request-id"));
    const call = { requestId, method: `${PREFIX}/${client}`, wire: "rest", key } as const;
    this.#options.noteRefusal(request, call.method, error);
    return reportFault(this.#options.log, error, call, this.#options.outage);
  }
}

const NOTHING: Reply = { answer: { kind: "none" } };
const AGENT_FAULTS: ReadonlySet<ErrorReason> = new Set([ErrorReason.AGENT_NOT_FOUND, ErrorReason.AGENT_INACTIVE]);
const keyEnded = () => new ControlPlaneError(ErrorReason.KEY_INVALID, "the key has ended");

const isCodingAgent = (name: string): name is CodingAgent => name === "claude-code" || name === "codex";

function settingsFrom(client: CodingAgent, query: URLSearchParams): HookSettings {
  const seconds = query.get("hold_seconds") ?? String(DEFAULT_HOLD_SECONDS);
  const whenPending = query.get("when_pending") ?? "deny";
  if (!/^\d{1,4}$/.test(seconds) || Number(seconds) > MAX_HOLD_SECONDS) {
    throw invalidField("hold_seconds", `must be a whole number from 0 to ${MAX_HOLD_SECONDS}`);
  }
  // Codex runs the tool when a hook says `ask`.
  const allowed = client === "codex" ? ["deny"] : ["deny", "ask"];
  if (!allowed.includes(whenPending)) throw invalidField("when_pending", `must be one of ${allowed.join(", ")}`);
  const outcome = query.get("outcome") ?? "none";
  if (!OUTCOMES.includes(outcome)) throw invalidField("outcome", `must be one of ${OUTCOMES.join(", ")}`);
  return {
    holdMs: Number(seconds) * 1_000,
    whenPending: whenPending as HookSettings["whenPending"],
    outcome: outcome as HookSettings["outcome"],
  };
}

/** Tests for an event after a tool. */
function isAfter(value: unknown): value is JsonObject {
  return isJsonObject(value as JsonValue) && AFTER_EVENTS.includes(ownValue(value as JsonObject, "hook_event_name"));
}

/** Tests for an event before a prompt reaches the model. */
function isPrompt(value: unknown): value is JsonObject {
  return isJsonObject(value as JsonValue) && ownValue(value as JsonObject, "hook_event_name") === PROMPT_EVENT;
}

/** Returns the client's id of its session; undefined if it gives none that can be told again. */
function clientSessionOf(event: JsonObject): string | undefined {
  const id = ownValue(event, "session_id");
  return typeof id === "string" && id !== "" && id.length <= MAX_CALL_ID ? id : undefined;
}

/** Returns the name of an event's call; undefined if the client gives it none that can be told again. */
function callOf(client: CodingAgent, event: JsonObject): HookCallName | undefined {
  const [sessionId = "", toolUseId] = [ownValue(event, "session_id"), ownValue(event, "tool_use_id")];
  if (typeof sessionId !== "string" || sessionId.length > MAX_CALL_ID) return undefined;
  if (typeof toolUseId !== "string" || toolUseId === "" || toolUseId.length > MAX_CALL_ID) return undefined;
  return { client, sessionId, toolUseId };
}

/**
 * Returns how a tool ended by the event after it; undefined for a tool that was interrupted, which may have run in part. What the tool
 * answered stays out of the log.
 */
function endFrom(event: JsonObject): CallEnd | undefined {
  const response = ownValue(event, "tool_response");
  const isError = response !== undefined && isJsonObject(response) && ownValue(response, "isError") === true;
  if (ownValue(event, "is_interrupt") === true) return undefined;
  if (isError || ownValue(event, "hook_event_name") === "PostToolUseFailure")
    return { status: "failed", error: "the coding agent said that the tool failed" };
  return { status: "succeeded" };
}

/** End of a call that was decided on trial. */
const NOT_RUN: CallEnd = { status: "cancelled", error: "the decision was a trial, and no tool ran" };

function eventFrom(client: CodingAgent, value: unknown, sessionId: string | undefined): ToolEvent {
  if (!isJsonObject(value as JsonValue)) {
    throw new ControlPlaneError(ErrorReason.MALFORMED_REQUEST, "the event of a hook must be a JSON object");
  }
  const event = value as JsonObject;
  const name = ownValue(event, "hook_event_name");
  if (name !== EVENT) throw invalidField("hook_event_name", `must be ${EVENT}: the hook decides before a tool runs`);
  const tool = ownValue(event, "tool_name");
  if (typeof tool !== "string" || tool === "") throw invalidField("tool_name", "is required, as text");
  const [, server = "", ofServer = tool] = MCP_TOOL.exec(tool) ?? [];
  if (server !== server.trim() || ofServer !== ofServer.trim() || tool !== tool.trim())
    throw invalidField("tool_name", "must not hold spaces at its ends");
  const input = ownValue(event, "tool_input") ?? {};
  if (!isJsonObject(input)) throw invalidField("tool_input", "must be an object");
  const about = ABOUT.map((member) => [member, ownValue(event, member)] as const);
  return {
    tool,
    call: callOf(client, event),
    sessionId,
    input,
    about: Object.fromEntries(about.filter(([, given]) => typeof given === "string")) as JsonObject,
  };
}

/**
 * Names a tool as the gateway does: `server.tool` for an MCP server's tool, `claude-code.Bash` for a tool of the client itself.
 */
function actionOf(
  client: CodingAgent,
  { tool, input, about, sessionId }: ToolEvent,
  waiting: Pick<HeldAction, "caller" | "bytes" | "trace" | "signal" | "holdMs">,
): HeldAction {
  const [, server, ofServer] = MCP_TOOL.exec(tool) ?? [];
  const name = server === undefined ? `${client}.${tool}` : `${server}.${ofServer}`;
  const origin = server === undefined ? {} : { mcp_server: server };
  return {
    ...waiting,
    wire: "hook",
    arguments: input,
    requestFor: (args) => ({
      actionType: name,
      tool: name,
      metadata: { ...about, client, ...origin, arguments: args },
      ...(sessionId === undefined ? {} : { sessionId }),
    }),
  };
}

function answerFrom(
  outcome: HeldOutcome,
  { tool, input }: ToolEvent,
  { whenPending }: HookSettings,
  publicUrl: string | undefined,
): Answer {
  const { sealed } = outcome;
  if (outcome.kind === "allowed") {
    if (outcome.arguments !== input) return { kind: "allow", editedInput: outcome.arguments };
    return GIVEN_PATHS.includes(sealed.path) ? { kind: "allow", editedInput: undefined } : { kind: "none" };
  }
  if (outcome.kind === "rejected") return { kind: "deny", reason: rejectedText(tool, outcome.escalation) };
  if (outcome.kind === "blocked") return { kind: "deny", reason: blockedText(tool, sealed) };
  const edited = outcome.kind === "pending" ? outcome.edited : undefined;
  return { kind: whenPending, reason: pendingText(tool, sealed, escalationPage(publicUrl, sealed), edited) };
}

/** Sends a reply: the output alone, or, to a hook that wants it signed, output and decision with the signature. */
function send(
  response: ServerResponse,
  client: CodingAgent,
  { answer, decided }: Reply,
  signed: { readonly key: string; readonly nonce: string } | undefined,
): void {
  if (response.destroyed) return;
  const output = outputFrom(client, answer);
  const keepsConnection = response.req.complete || response.req.httpVersionMajor > 1;
  const headers = keepsConnection ? {} : { connection: "close" };
  if (signed === undefined) {
    sendJson(response, 200, JSON.stringify(output), headers);
    return;
  }
  const decision = decided && { agent_id: decided.agentId, ...decisionMeta(decided.sealed) };
  const body = Buffer.from(JSON.stringify(decision === undefined ? { output } : { output, decision }));
  const signature = createHmac("sha256", signed.key).update(signed.nonce).update(body).digest("hex");
  sendJson(response, 200, body, { ...headers, [SIGNATURE_HEADER]: signature });
}

/**
 * Writes an answer in the client's form. Codex accepts `allow` only with edited input; an unedited call is allowed by an empty
 * output.
 */
function outputFrom(client: CodingAgent, answer: Answer): JsonObject {
  if (answer.kind === "none") return {};
  // Both clients take this of an event before a prompt.
  if (answer.kind === "refuse") return { decision: "block", reason: answer.reason };
  if (answer.kind !== "allow") {
    return hookOutput({ permissionDecision: answer.kind, permissionDecisionReason: answer.reason });
  }
  const { editedInput } = answer;
  if (editedInput !== undefined) return hookOutput({ permissionDecision: "allow", updatedInput: editedInput });
  return client === "codex" ? {} : hookOutput({ permissionDecision: "allow" });
}

const hookOutput = (output: JsonObject): JsonObject => ({ hookSpecificOutput: { hookEventName: EVENT, ...output } });
