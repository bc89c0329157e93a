import { AgentBlockedError } from "../blocked-error.ts";
import { UnknownEndError } from "../claimed-action.ts";
import { createDeferred } from "../deferred.ts";
import { ControlPlaneRequestError, isUnreachable } from "../request-error.ts";
import { type ToolArguments, ToolGuard, type ToolGuardOptions } from "./tool-guard.ts";

export type { ToolGuardOptions } from "./tool-guard.ts";

/** Options that turn the requests to a route into actions. `Request` is the framework's type. */
export interface RouteGuardOptions<Request>
  extends Omit<ToolGuardOptions, "agentId" | "actionType" | "whenRefused" | "registerWith" | "acceptEdits" | "amount"> {
  /** The calling agent, for all requests or by request. Default: the control plane's `agentId`. */
  readonly agentId?: string | ((request: Request) => string | Promise<string>) | undefined;
  /** Tool and action type of the route, such as `payments.send`. */
  readonly tool: string;
  /** Returns the arguments that rules evaluate, as JSON. Default: the parsed body, if it is an object. */
  readonly toArguments?: ((request: Request) => ToolArguments) | undefined;
}

interface Closable {
  readonly statusCode?: number;
  readonly writableFinished?: boolean;
  once(event: "close" | "finish", listener: () => void): unknown;
}

/** Response to a refused request. */
interface Refusal {
  readonly status: 403 | 503;
  readonly body: { readonly ok: false; readonly error: object };
}

/**
 * Middleware for Express: decides a request before later handlers run, and answers a refused request with 403 and the reasons. Reports
 * the request by the status of its response: `failed` from 400 on. It reports nothing if the caller disconnects before the response.
 */
export function expressGuard<Request extends { readonly body?: unknown }>(options: RouteGuardOptions<Request>) {
  return (
    request: NoInfer<Request>,
    response: Closable & { status(code: number): { json(body: unknown): unknown } },
    next: (error?: unknown) => void,
  ): void => {
    decide(options, request, response).then((refusal) => {
      if (refusal === undefined) next();
      else response.status(refusal.status).json(refusal.body);
    }, next);
  };
}

/**
 * A `preHandler` hook for Fastify: decides a request before its handler runs, and answers a refused request with 403 and the
 * reasons. Reports the request as `expressGuard` does.
 */
export function fastifyGuard<Request extends { readonly body?: unknown }>(options: RouteGuardOptions<Request>) {
  return async (
    request: NoInfer<Request>,
    reply: { readonly raw: Closable; code(status: number): { send(body: unknown): unknown } },
  ): Promise<unknown> => {
    const refusal = await decide(options, request, reply.raw);
    if (refusal === undefined) return undefined;
    return reply.code(refusal.status).send(refusal.body);
  };
}

/**
 * Decides a request. Resolves with the response if it is refused, and with undefined once its handler may run. Rejects with a fault of the
 * options, and when the caller disconnects before.
 */
async function decide<Request extends { readonly body?: unknown }>(
  { agentId, tool, toArguments = bodyOf, ...options }: RouteGuardOptions<Request>,
  request: Request,
  response: Closable,
): Promise<Refusal | undefined> {
  const leaving = new AbortController();
  response.once("close", () => {
    if (response.writableFinished !== true)
      leaving.abort(new Error("the caller disconnected before its request was decided"));
  });
  const agent = typeof agentId === "function" ? await agentId(request) : agentId;
  const guard = new ToolGuard({ ...options, agentId: agent, abortWhenRevoked: false });
  const { promise: decided, resolve, reject } = createDeferred<Refusal | undefined>();
  const handle = (): Promise<number> => {
    const ended = responded(response);
    resolve(undefined);
    return ended;
  };
  const refuse = (message: string, error: AgentBlockedError): void => resolve(refusalFrom(message, error));
  const named = { name: tool, inputSchema: () => undefined };
  const given = { signal: leaving.signal, isFailure: (status: unknown) => Number(status) >= 400 };
  // Goes on until the response is sent and reported.
  guard.call(named, toArguments(request), handle, refuse, given).catch((error: unknown) => {
    if (error instanceof AgentBlockedError) refuse(error.forModel, error);
    else reject(error);
  });
  return await decided;
}

/**
 * Resolves with the status of a response when it is sent. Rejects when the caller disconnects before: the handler may have carried out the
 * action nevertheless.
 */
function responded(response: Closable): Promise<number> {
  return new Promise((resolve, reject) => {
    const onEnd = (): void => {
      if (response.writableFinished === true) resolve(response.statusCode ?? 200);
      else reject(new UnknownEndError("the caller disconnected before the response"));
    };
    response.once("finish", onEnd);
    response.once("close", onEnd);
  });
}

function bodyOf({ body }: { readonly body?: unknown }): ToolArguments {
  const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
  return isObject ? (body as ToolArguments) : {};
}

function refusalFrom(message: string, error: AgentBlockedError): Refusal {
  const { cause, decisionId, escalationId, reasons, retryAfter } = error;
  const isUnavailable = cause instanceof ControlPlaneRequestError && isUnreachable(cause);
  const details = {
    decision: error.decision,
    decision_id: decisionId,
    escalation_id: escalationId,
    retry_after: retryAfter,
    reasons,
  };
  return { status: isUnavailable ? 503 : 403, body: { ok: false, error: { message, ...details } } };
}
