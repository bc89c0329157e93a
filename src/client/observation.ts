import { create } from "@bufbuild/protobuf";
import { ObservationSource, ObserveRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ControlPlaneRequestError } from "./request-error.ts";
import { createRequestId } from "./request-id.ts";
import { type ChannelCallOptions, callOver, type InterceptRoutes } from "./routes.ts";

/** Content that a session observes: of its values the control plane keeps digests, of the content nothing. */
export interface Observation {
  readonly sessionId: string;
  /** Prompt of the agent, or the result of a call. */
  readonly source: "prompt" | "result";
  /** Text, or the text of JSON. What is beyond 960 KiB is cut, and the session then counts as full. */
  readonly content: string;
  /** The decision that allowed the call with this result. Default: none, and nothing of the result counts as trusted. */
  readonly decisionId?: string | undefined;
  /** True if the call failed: nothing of its result counts as trusted. Default false. */
  readonly isError?: boolean | undefined;
}

/** Session and limits of telling a prompt. */
export interface ObservePromptOptions {
  readonly sessionId: string;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds, retries included. Default: the control plane's `timeoutMs`. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Error of a guarded call with `observe`, whose function ran while its session could not observe what came of it. The result, or the
 * error, is withheld: a model that read it could act on what no rule knows of.
 */
export class ResultWithheldError extends Error {
  override readonly name = "ResultWithheldError";
  readonly decisionId: string;
  readonly sessionId: string;

  constructor(actionType: string, decisionId: string, sessionId: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(
      `\`${actionType}\` ran, and its result is withheld: session \`${sessionId}\` could not observe it: ${why}; ` +
        "check what it did before it is called again",
      { cause },
    );
    this.decisionId = decisionId;
    this.sessionId = sessionId;
  }
}

/** Bytes of a content as JSON that are sent: services by default read requests of 1 MiB. */
const MAX_CONTENT_JSON = 983_040;
const ENCODER = new TextEncoder();
const SOURCES = { prompt: ObservationSource.PROMPT, result: ObservationSource.RESULT };

/** Tells a session a content, and repeats the call while no answer comes. Rejects with a `ControlPlaneRequestError`. */
export async function callObserve(
  { client }: InterceptRoutes,
  { sessionId, source, content: whole, decisionId, isError = false }: Observation,
  limits: ChannelCallOptions,
): Promise<void> {
  const content = cut(whole);
  const isCut = content.length < whole.length;
  const told = { sessionId, source: SOURCES[source], content, isError, isCut };
  const request = create(ObserveRequestSchema, decisionId === undefined ? told : { ...told, decisionId });
  const alone = { requestId: createRequestId(), overChannel: undefined };
  await callOver(
    { client, channel: undefined },
    { ...alone, alone: (service, options) => service.observe(request, options) },
    limits,
  );
}

function cut(whole: string): string {
  for (let text = whole.slice(0, MAX_CONTENT_JSON); ; ) {
    const bytes = text.length * 6 <= MAX_CONTENT_JSON ? 0 : ENCODER.encode(JSON.stringify(text)).length;
    if (bytes <= MAX_CONTENT_JSON) return wellFormed(text.replaceAll("\0", " "));
    text = text.slice(0, Math.floor((text.length * MAX_CONTENT_JSON) / bytes) - 1);
  }
}

/** Replaces halves of character pairs, which no message takes. */
const wellFormed = (text: string): string => new TextDecoder().decode(ENCODER.encode(text));

/**
 * Tells the session of a call what came of it: a text as it is, anything else as JSON. Does nothing for a result without JSON, and for a
 * session that has ended, in which nothing is decided any more. `tell` sends an observation.
 */
export async function tellResult(
  tell: (observation: Observation) => Promise<void>,
  of: Pick<Observation, "sessionId" | "decisionId">,
  ended: { readonly result: unknown } | { readonly error: unknown },
): Promise<void> {
  const hasFailed = "error" in ended;
  const content = hasFailed ? thrownText(ended.error) : resultText(ended.result);
  if (content === undefined || content === "") return;
  const observation = { ...of, source: "result", content, isError: hasFailed } as const;
  try {
    await tell(observation);
  } catch (error) {
    const reason = error instanceof ControlPlaneRequestError ? error.reason : undefined;
    if (reason === "SESSION_ENDED") return;
    if (reason !== "OBSERVATION_EXISTS") throw error;
    // Somebody told another result of the decision before: this one is then a result of no decision.
    await tell({ ...observation, decisionId: undefined });
  }
}

/** Returns a text as it is, anything else as JSON. Throws a `TypeError` for an object of a class that has none, such as a `Response`. */
function resultText(result: unknown): string | undefined {
  const text = textOf(result);
  if (text === "{}" && hasNoJson(result)) throw new TypeError("it has no JSON; return its text, or plain data");
  return text;
}

function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  const text = JSON.stringify(value, withContents) as string | undefined;
  // A time, and bytes, have become texts.
  return text?.startsWith('"') ? JSON.parse(text) : text;
}

/** Writes what JSON leaves out: the entries of maps and sets, bytes as text, and errors. */
function withContents(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const own = this[key];
  if (own instanceof Map || own instanceof Set) return [...own];
  if (isError(own)) return { ...Object(value), message: errorText(own) };
  return ArrayBuffer.isView(own) || own instanceof ArrayBuffer ? new TextDecoder().decode(own) : value;
}

function hasNoJson(result: unknown): boolean {
  if (typeof result !== "object") return false;
  const prototype = Object.getPrototypeOf(result);
  return prototype !== null && Object.getPrototypeOf(prototype) !== null && !("toJSON" in prototype);
}

const thrownText = (error: unknown): string | undefined => (isError(error) ? errorText(error) : resultText(error));

/** Tests for an error, also for one of another realm, as test runners make them. */
const isError = (value: unknown): value is Error =>
  value instanceof Error || Object.prototype.toString.call(value) === "[object Error]";

const MAX_CAUSES = 5;

/** Returns the message of an error, and those of its causes and of the errors that it sums up. */
function errorText(error: Error, depth = 0): string {
  const { message, cause, errors } = error as Error & { readonly errors?: unknown };
  const more = depth < MAX_CAUSES ? [cause, ...(Array.isArray(errors) ? errors : [])] : [];
  const texts = more.map((each) => (isError(each) ? errorText(each, depth + 1) : textOf(each)));
  return [message, ...texts].filter(Boolean).join("\n");
}
