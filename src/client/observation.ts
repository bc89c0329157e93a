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
  const isError = "error" in ended;
  const content = isError ? errorText(ended.error) : resultText(ended.result);
  if (content === undefined || content === "") return;
  const observation = { ...of, source: "result", content, isError } as const;
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

const resultText = (result: unknown): string | undefined =>
  typeof result === "string" ? result : (JSON.stringify(result) as string | undefined);

const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));
