/*
 * What the redaction proxy adds to the time until a model's first word, and what a dead webhook receiver adds to an answer
 * with a leak. Run with `node test/bench/redaction-proxy.ts`; an argument sets the requests of each kind (default 300).
 */

import { startRawReceiver } from "../redaction/raw-receiver.ts";
import { chatEvents, startUpstream, streams } from "../redaction/upstream.ts";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { startServer } from "../support/server.ts";
import { median } from "./report.ts";

const REQUESTS = Number(process.argv[2] ?? 300);
const WARM_UP = 50;
/** Milliseconds that the proxy may add to the median. */
const BOUND_MS = 2;
/** How much longer an answer may take while a receiver is dead; what is measured twice differs by as much. */
const BOUND_RATIO = 1.1;

const BODY = JSON.stringify({
  model: "test-1",
  stream: true,
  messages: [{ role: "user", content: "Please write to jane.roe@corp-mail.org about order 17." }],
});

/** Milliseconds until the first word, and until the answer has ended. */
interface Timed {
  readonly first: number;
  readonly all: number;
}

async function ask(url: string, key: string): Promise<Timed> {
  const startedAt = performance.now();
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
  const response = await fetch(`${url}/chat/completions`, { method: "POST", headers, body: BODY });
  let text = "";
  let first = Number.NaN;
  const decoder = new TextDecoder();
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    if (Number.isNaN(first) && text.includes("Hello")) first = performance.now() - startedAt;
  }
  if (!text.includes("[DONE]")) throw new Error(`the answer was ${text}`);
  return { first, all: performance.now() - startedAt };
}

/** Asks in turns, so that whatever else the machine does meets all alike. Gives the medians. */
async function compare(asks: readonly (() => Promise<Timed>)[]): Promise<Timed[]> {
  const times: Timed[][] = asks.map(() => []);
  for (let round = -WARM_UP; round < REQUESTS; round++) {
    for (const [index, each] of asks.entries()) {
      const timed = await each();
      if (round >= 0) times[index]?.push(timed);
    }
  }
  return times.map((each) => ({
    first: median(each.map(({ first }) => first)),
    all: median(each.map(({ all }) => all)),
  }));
}

const cleanup = new AsyncDisposableStack();
try {
  const upstream = await startUpstream();
  cleanup.defer(() => upstream.close());
  const dead = await startRawReceiver({ isSilent: true });
  cleanup.defer(() => dead.close());
  const databaseUrl = await startOwnPostgres(cleanup);
  const env = { ACP_LLM_URL: upstream.url, ACP_LOG_LEVEL: "error", ACP_WEBHOOK_ALLOW: "127.0.0.0/8" };
  const server = await startServer({ databaseUrl, env });
  cleanup.defer(async () => void (await server.stop()));
  const { http, adminKey } = server;

  const post = async (path: string, body: object, key = adminKey): Promise<{ secret: string }> => {
    const headers = { "content-type": "application/json", "x-api-key": key };
    const response = await fetch(http + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as { secret: string };
  };
  const { secret: other } = await post("/v1/admin/workspaces", { workspace_id: "watched" });
  await post("/api/redact/watched/webhooks", { url: `http://127.0.0.1:${dead.port}/` }, other);
  const through = (workspace: string): string => `${http}/api/redact/${workspace}/openai/v1`;

  upstream.answer = streams(chatEvents(["Hello", " there", ", done"]));
  const [bare, proxied] = (await compare([
    () => ask(upstream.url, adminKey),
    () => ask(through("default"), adminKey),
  ])) as [Timed, Timed];
  const added = proxied.first - bare.first;
  console.log(`first word   p50 bare ${bare.first.toFixed(2)} ms, through the proxy ${proxied.first.toFixed(2)} ms`);
  console.log(
    `${added <= BOUND_MS ? "PASS" : "FAIL"}  added to the first word ${added.toFixed(2)} ms <= ${BOUND_MS} ms`,
  );

  upstream.answer = streams(chatEvents(["Hello", " to rick.roe@corp-mail.org", ", done"]));
  const [none, one] = (await compare([
    () => ask(through("default"), adminKey),
    () => ask(through("watched"), other),
  ])) as [Timed, Timed];
  const ratio = one.all / none.all;
  console.log(
    `leaking      p50 without webhook ${none.all.toFixed(2)} ms, with a dead receiver ${one.all.toFixed(2)} ms`,
  );
  console.log(`${ratio <= BOUND_RATIO ? "PASS" : "FAIL"}  ratio ${ratio.toFixed(2)} <= ${BOUND_RATIO}`);
  console.log(`receiver     ${dead.requests.length} requests came, none was answered`);
  if (added > BOUND_MS || ratio > BOUND_RATIO) process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
