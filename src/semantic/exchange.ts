import { fault, type GuardFault } from "./answer.ts";

/** Where a model is, and how to get in. */
export interface Endpoint {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly key: { reveal(): string } | null;
}

/** What came back, as text of at most `MAX_ANSWER_BYTES`. */
export interface ModelReply {
  readonly kind: "reply";
  readonly text: string;
}

/** Bytes of an answer: a verdict takes less than one in fifty of them. */
export const MAX_ANSWER_BYTES = 65_536;

/** What a connection dies of that the other side closed, most often a kept one while the request was on its way. */
const RESETS: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"]);

/** A word for what a request failed with, such as `ECONNREFUSED`; messages may hold what was sent, and are not used. */
function wordFor(error: unknown): string {
  const { cause } = error as { cause?: { readonly code?: unknown; readonly name?: unknown } };
  const word = String(cause?.code ?? cause?.name ?? "");
  return /^\w{1,64}$/.test(word) ? word : "no connection";
}

function send({ url, key }: Endpoint, body: string, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {
    accept: "application/json",
    // Too short to be worth packing. The bound on an answer holds for what a packed one unpacks to.
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "agent-control-plane",
  };
  if (key !== null) headers.authorization = `Bearer ${key.reveal()}`;
  return fetch(`${url}/chat/completions`, { method: "POST", headers, body, redirect: "manual", signal });
}

/**
 * Sends once more when the connection was closed before an answer began: a question changes nothing, and a service that
 * closes an idle connection while it is taken up again is no failure. Everything else fails at once.
 */
async function sendWithRetry(endpoint: Endpoint, body: string, signal: AbortSignal): Promise<Response> {
  try {
    return await send(endpoint, body, signal);
  } catch (error) {
    if (signal.aborted || !RESETS.has(wordFor(error))) throw error;
    return send(endpoint, body, signal);
  }
}

function statusFault({ status, headers }: Response): GuardFault | undefined {
  const detail = `status ${status}`;
  if (status === 429) return fault("rate_limited", detail);
  if (status === 408 || status >= 500) return fault("server_error", detail);
  if (status !== 200) return fault("rejected", detail);
  const [mediaType = ""] = (headers.get("content-type") ?? "").split(";");
  return mediaType.trim().toLowerCase() === "application/json"
    ? undefined
    : fault("invalid_answer", "the content type is not application/json");
}

async function textOf(response: Response): Promise<ModelReply | GuardFault> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    // Leaving the loop closes the connection.
    if (bytes > MAX_ANSWER_BYTES) return fault("invalid_answer", `more than ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  return { kind: "reply", text: Buffer.concat(chunks).toString("utf8") };
}

/** Posts a question and reads the answer. Follows no redirect. MUST NOT reject; an abort is `unreachable`. */
export async function postQuestion(
  endpoint: Endpoint,
  body: string,
  signal: AbortSignal,
): Promise<ModelReply | GuardFault> {
  try {
    const response = await sendWithRetry(endpoint, body, signal);
    const refusal = statusFault(response);
    if (refusal === undefined) return await textOf(response);
    await response.body?.cancel();
    return refusal;
  } catch (error) {
    return fault("unreachable", wordFor(error));
  }
}
