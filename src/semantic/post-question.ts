import { type TracePlace, traceHeaderOf } from "../tracing/trace-context.ts";
import { fault, type ModelFault } from "./fault.ts";

/** Address and key of a model. */
export interface Endpoint {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly key: { reveal(): string } | null;
}

/** Body of a reply: at most `MAX_REPLY_BYTES`. */
export interface ModelReply {
  readonly kind: "reply";
  readonly text: string;
}

/** Maximum bytes of a reply: fifty times a verdict. */
export const MAX_REPLY_BYTES = 65_536;

/** Errors of a connection that the other side closed, most often an idle one that was just taken up again. */
const RESETS: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"]);

/** Returns the code of a failure, such as `ECONNREFUSED`. Messages are not used: they may quote the request. */
function errorCode(error: unknown): string {
  const { cause } = error as { cause?: { readonly code?: unknown; readonly name?: unknown } };
  const code = String(cause?.code ?? cause?.name ?? "");
  return /^\w{1,64}$/.test(code) ? code : "no connection";
}

/** A question on its way to a model. */
interface Question {
  readonly body: string;
  readonly signal: AbortSignal;
  /** Place in the trace that the question belongs to; undefined for none. */
  readonly trace: TracePlace | undefined;
}

function send({ url, key }: Endpoint, { body, signal, trace }: Question): Promise<Response> {
  const headers: Record<string, string> = {
    ...traceHeaderOf(trace),
    accept: "application/json",
    // A verdict is too short to compress. If a reply is compressed anyway, the bound applies to the decompressed bytes.
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "agent-control-plane",
  };
  if (key !== null) headers.authorization = `Bearer ${key.reveal()}`;
  return fetch(`${url}/chat/completions`, { method: "POST", headers, body, redirect: "manual", signal });
}

/** Sends, and retries once if the connection was closed before a reply began: a question is safe to repeat. */
async function sendWithRetry(endpoint: Endpoint, question: Question): Promise<Response> {
  try {
    return await send(endpoint, question);
  } catch (error) {
    if (question.signal.aborted || !RESETS.has(errorCode(error))) throw error;
    return send(endpoint, question);
  }
}

function statusFault({ status, headers }: Response): ModelFault | undefined {
  const detail = `status ${status}`;
  if (status === 429) return fault("rate_limited", detail);
  if (status === 408 || status >= 500) return fault("server_error", detail);
  if (status !== 200) return fault("rejected", detail);
  const [mediaType = ""] = (headers.get("content-type") ?? "").split(";");
  return mediaType.trim().toLowerCase() === "application/json"
    ? undefined
    : fault("invalid_answer", "the content type is not application/json");
}

async function readReply(response: Response): Promise<ModelReply | ModelFault> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    // Leaving the loop closes the connection.
    if (bytes > MAX_REPLY_BYTES) return fault("invalid_answer", `more than ${MAX_REPLY_BYTES} bytes`);
    chunks.push(chunk);
  }
  return { kind: "reply", text: Buffer.concat(chunks).toString("utf8") };
}

/** Posts a question and reads the reply. Follows no redirect. MUST NOT reject; an abort is `unreachable`. */
export async function postQuestion(endpoint: Endpoint, question: Question): Promise<ModelReply | ModelFault> {
  try {
    const response = await sendWithRetry(endpoint, question);
    const refusal = statusFault(response);
    if (refusal === undefined) return await readReply(response);
    await response.body?.cancel();
    return refusal;
  } catch (error) {
    return fault("unreachable", errorCode(error));
  }
}
