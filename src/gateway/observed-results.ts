import type { JsonObject } from "@bufbuild/protobuf";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../errors.ts";
import { sessionEnded } from "../log/observation.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { Observe } from "../observation/observe.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { McpCaller } from "./caller.ts";
import { type Exchange, inGeneration, noteFault } from "./exchange.ts";
import { createError, createResult, RPC_CODES, type RpcResponse } from "./messages.ts";
import type { Method } from "./methods.ts";
import { contentFrom, contentOfResponse, type ResultContent } from "./result-content.ts";
import type { OpenCall } from "./sessions.ts";
import { refusal } from "./tool-results.ts";

/** Parts of `ObservedResults`. */
export interface ObservedResultsOptions {
  readonly observe: Observe;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly log: StoreLog;
}

/** Exchange whose result a session observes. */
export type ObservedExchange = Pick<Exchange, "caller" | "server" | "session" | "namedSession" | "generation">;

/** Call whose result a session observes. It ends when nobody waits for the result. */
type ObservedCall = Pick<OpenCall, "method" | "uri" | "ending">;

/** Methods whose responses no model reads as the result of a call. */
const UNREAD_METHODS: readonly string[] = ["completion/complete", "resources/subscribe", "subscriptions/listen"];
/** Methods that tell what became of a call. */
const TASK_METHODS: readonly string[] = ["tasks/get", "tasks/result", "tasks/cancel"];

/** Returns the session of a message: the one that its client names, else the one of its connection. */
export const sessionIdOf = ({
  namedSession,
  session,
}: Pick<Exchange, "namedSession" | "session">): string | undefined => namedSession ?? session?.id;

/** Tests whether responses to a method are results that a model may read. Methods beside the table pass as their server names them. */
export function isObserved(name: string, method: Method | undefined): boolean {
  if (method === undefined || TASK_METHODS.includes(name)) return true;
  return method.rule === "decided" && !UNREAD_METHODS.includes(name);
}

/** Tells the sessions of agents what servers answer, before their clients read it. */
export class ObservedResults {
  readonly #options: ObservedResultsOptions;

  constructor(options: ObservedResultsOptions) {
    this.#options = options;
  }

  /** Throws SESSION_ENDED if a message that is not decided names a session that its agent never had. */
  async assertOwn({ namedSession, caller }: ObservedExchange): Promise<void> {
    if (namedSession === undefined) return;
    const log = await this.#options.logs.of(caller.workspaceId);
    if (log.agentOfSession(namedSession) === undefined) await log.caughtUp();
    if (log.agentOfSession(namedSession) !== caller.agentId) throw sessionEnded(namedSession);
  }

  /**
   * Returns the step that a response of a server passes before its client gets it: it resolves with the response once its session has
   * observed it, and with one that withholds it if that fails. Undefined for a call without a session. `decisionId`: the decision on
   * the call; undefined if the response is not to it.
   */
  stepOf(exchange: ObservedExchange, call: ObservedCall, decisionId: string | undefined): OpenCall["observe"] {
    const sessionId = sessionIdOf(exchange);
    if (sessionId === undefined) return undefined;
    return async (response) => {
      const content = await contentOfResponse(call, response);
      // A task has begun, or the server asks first: the result comes later.
      const isFinal = response.error !== undefined || isComplete(response);
      try {
        if (content !== undefined)
          await this.#observe(exchange, sessionId, isFinal ? decisionId : undefined, content, call);
        return response;
      } catch (error) {
        if (call.ending.signal.aborted) throw call.ending.signal.reason;
        noteFault(this.#options.log, exchange.server, error);
        return withheld(exchange, { sessionId, decisionId, method: call.method }, response, error);
      }
    };
  }

  /**
   * Observes the text of an HTTP error, which some clients show to the model. Rejects if that fails. `call` is the request that it
   * answers.
   */
  async observeText(exchange: ObservedExchange, call: ObservedCall, text: string): Promise<void> {
    const sessionId = sessionIdOf(exchange);
    const content = await contentFrom(text, true);
    if (sessionId === undefined || content === undefined) return;
    try {
      await this.#observe(exchange, sessionId, undefined, content, call);
    } catch (error) {
      const { reason, metadata } = controlPlaneErrorFrom(error);
      throw new ControlPlaneError(reason, withheldText(sessionId, error), metadata, { cause: error });
    }
  }

  /** Observes what a server asks the client's model or its user. Rejects if that fails. */
  async observeRequest(exchange: ObservedExchange & Pick<Exchange, "ending">, params: JsonObject): Promise<void> {
    const sessionId = sessionIdOf(exchange);
    if (sessionId === undefined) return;
    await this.assertOwn(exchange);
    const { _meta: _, ...members } = params;
    const content = await contentFrom(members, false);
    if (content !== undefined) await this.#observe(exchange, sessionId, undefined, content, exchange);
  }

  async #observe(
    exchange: Pick<ObservedExchange, "caller">,
    sessionId: string,
    decisionId: string | undefined,
    content: ResultContent,
    call: Pick<ObservedCall, "ending">,
  ): Promise<void> {
    const { caller } = exchange;
    const log = await this.#options.logs.of(caller.workspaceId);
    await observeResult(this.#options.observe, log, {
      content,
      sessionId,
      decisionId,
      caller,
      signal: call.ending.signal,
    });
  }
}

/** Content of a result that a session is to observe. */
export interface ToldResult {
  readonly content: ResultContent;
  readonly sessionId: string;
  readonly decisionId: string | undefined;
  readonly caller: McpCaller;
  readonly signal: AbortSignal;
}

/**
 * Observes a content, as the result of a decision if that can be. A decision of another session, and one whose result was told with
 * other content before, by the agent itself or in an earlier round, leave it as a result of no decision, which nothing trusts. Does
 * nothing for a session that has ended.
 */
export async function observeResult(observe: Observe, log: WorkspaceLog, told: ToldResult): Promise<void> {
  const { content, sessionId, decisionId, caller, signal } = told;
  try {
    await observe(log, { ...content, sessionId, source: "result", decisionId }, observerOf(caller, signal));
  } catch (error) {
    const { reason } = controlPlaneErrorFrom(error);
    // Nothing can be decided in the session any more.
    if (reason === ErrorReason.SESSION_ENDED) return;
    if (decisionId === undefined || !ANOTHER_RESULT.has(reason)) throw error;
    await observeResult(observe, log, { ...told, decisionId: undefined });
  }
}

/** Creates the response in place of a result that its session could not observe. */
function withheld(
  { generation }: ObservedExchange,
  { sessionId, decisionId, method }: { sessionId: string; decisionId: string | undefined; method: string },
  { id }: RpcResponse,
  error: unknown,
): RpcResponse {
  const text = withheldText(sessionId, error);
  if (method === "tools/call") {
    const reasons = [{ code: "RESULT_WITHHELD", message: text }];
    const meta = { decision: "allow", decision_id: decisionId ?? null, reasons };
    return createResult(id, inGeneration(generation, refusal(text, meta)));
  }
  const { reason } = controlPlaneErrorFrom(error);
  return createError(id, RPC_CODES.server, text, { reason: ErrorReason[reason] ?? "INTERNAL", metadata: {} });
}

/** Reasons for which a content is observed as a result of no decision. */
const ANOTHER_RESULT: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.DECISION_NOT_FOUND,
  ErrorReason.OBSERVATION_EXISTS,
]);

/** Returns the caller of an observation that is made in an agent's place. */
export function observerOf({ keyId, agentId }: McpCaller, signal: AbortSignal) {
  return { keyId, agentId, isAgent: true, isOver: () => signal.aborted, signal };
}

function isComplete({ result = {} }: RpcResponse): boolean {
  const { resultType = "complete", task } = result;
  return resultType === "complete" && (typeof task !== "object" || task === null);
}

function withheldText(sessionId: string, error: unknown): string {
  const { message } = controlPlaneErrorFrom(error);
  return (
    `the call ran, and its result is withheld: session \`${sessionId}\` could not observe it (${message}); ` +
    "check what the call did before you make it again"
  );
}
