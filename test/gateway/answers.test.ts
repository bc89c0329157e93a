import { Readable } from "node:stream";
import { expect } from "chai";
import { SharedPot } from "../../src/async/shared-pot.ts";
import { overShare } from "../../src/errors.ts";
import { createResult } from "../../src/gateway/messages.ts";
import { type Relay, relay } from "../../src/gateway/relay.ts";
import { failureOf } from "../support/harness.ts";

const ENCODER = new TextEncoder();

describe("answers of MCP servers on their way", () => {
  /** One workspace alone may hold 1,000 bytes. */
  const createPot = () =>
    new SharedPot({
      name: "mcp_answer_bytes",
      size: 2_000,
      unit: "bytes of answers",
      advice: "ask for less",
      retryAfterSeconds: 1,
      refuse: overShare,
    });
  const text = (length: number) => JSON.stringify(createResult(1, { text: "x".repeat(length) }));

  /** Relays a body of one type, in chunks. Resolves with what the client gets. */
  async function relayed(held: Relay["held"], type: string, chunks: Iterable<string>): Promise<string[]> {
    const sent: string[] = [];
    const keep = async (value: unknown) => void sent.push(JSON.stringify(value));
    const body = Readable.toWeb(Readable.from(Array.from(chunks, (chunk) => ENCODER.encode(chunk))));
    await relay({
      server: "bank",
      response: new Response(body as never, { headers: { "content-type": type } }),
      reply: {
        hasBegun: false,
        isOver: false,
        setHeader: () => undefined,
        beginStream: () => undefined,
        event: keep,
        retry: keep,
        message: keep,
        finish: keep,
        text: () => undefined,
        end: () => undefined,
        delivered: true,
      } as never,
      id: 1,
      maxBytes: 100_000,
      held,
      onMessage: () => undefined,
      passes: async () => true,
      awaits: () => true,
      scrubber: undefined,
      transform: (response) => response,
      onErrorText: async () => undefined,
      onMethod: () => undefined,
      onDropped: () => undefined,
      tooLarge: (id) => createResult(id, {}),
    });
    return sent;
  }

  for (const [type, wrap] of [
    ["application/json", (json: string) => json],
    ["text/event-stream", (json: string) => `data: ${json}\n\n`],
  ] as const) {
    it(`hold a share of the bytes (${type}): past it one is refused, and it has to say that it may have worked.`, async () => {
      const pot = createPot();
      const half = (given: string): string[] => [given.slice(0, given.length / 2), given.slice(given.length / 2)];
      const first = pot.open({ workspaceId: "a" });
      expect(await relayed(first, type, half(wrap(text(700))))).to.have.length(1);
      first.release();
      const filled = pot.take({ workspaceId: "a" }, 600);
      const refused = pot.open({ workspaceId: "a" });
      const refusal = await failureOf(relayed(refused, type, half(wrap(text(700)))));
      expect(refusal.metadata).to.include({ pot: "mcp_answer_bytes", party: "workspace", retry_after_seconds: "1" });
      refused.release();
      expect(pot.heldBy({ workspaceId: "b" })).to.equal(0);
      expect(await relayed(pot.open({ workspaceId: "b" }), type, half(wrap(text(300))))).to.have.length(1);
      filled.release();
    });
  }

  it("hold no more of a stream than the event that is being read.", async () => {
    const pot = createPot();
    const held = pot.open({ workspaceId: "a" });
    const notice = JSON.stringify({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { text: "x".repeat(400) },
    });
    const events = Array.from({ length: 20 }, () => `data: ${notice}\n\n`);
    const comments = Array.from({ length: 200 }, () => ": keep-alive\n\n");
    expect(await relayed(held, "text/event-stream", [...events, ...comments, `data: ${text(10)}\n\n`])).to.have.length(
      21,
    );
    expect(pot.held).to.equal(0);
  });
});
