import { getEventListeners } from "node:events";
import { expect } from "chai";
import { type FollowOptions, followStream } from "../../src/client/follow-stream.ts";
import { ControlPlaneRequestError } from "../../src/client/request-error.ts";
import { rejection } from "./harness.ts";

/** What one attempt yields, and how it ends: by itself, with a fault, or never. */
interface Attempt {
  readonly messages: readonly string[];
  readonly fault?: Error;
  readonly isSilent?: boolean;
}

const broken = new Error("broken");
const PAUSES = { firstMs: 1, maxMs: 4 };

/** A server with a stream that goes as the attempts say, the last one for ever after. */
function scriptedStream(...attempts: readonly Attempt[]) {
  const opened: AbortSignal[] = [];
  async function* open(signal: AbortSignal): AsyncGenerator<string> {
    opened.push(signal);
    const { messages, fault, isSilent } = attempts[Math.min(opened.length, attempts.length) - 1] as Attempt;
    yield* messages;
    if (fault !== undefined) throw fault;
    if (isSilent) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  }
  return { open, opened };
}

/** Follows a stream until a message says `stop`. */
async function follow(options: Omit<FollowOptions<string>, "signal" | "pauses"> & Partial<FollowOptions<string>>) {
  const heard: string[] = [];
  const { signal } = new AbortController();
  for await (const message of followStream({ signal, pauses: PAUSES, ...options })) {
    heard.push(message);
    if (message === "stop") break;
  }
  return heard;
}

describe("following a stream", () => {
  it("goes on after a stream that ends, breaks or falls silent, and tells which.", async () => {
    const { open, opened } = scriptedStream(
      { messages: ["a", "b"] },
      { messages: ["c"], fault: broken },
      { messages: ["d"], isSilent: true },
      { messages: ["stop"], isSilent: true },
    );
    const faults: unknown[] = [];
    const onLost = (fault: unknown): undefined => void faults.push(fault);
    expect(await follow({ open, onLost, silenceMs: 50 })).to.deep.equal(["a", "b", "c", "d", "stop"]);
    expect(faults.slice(0, 2)).to.deep.equal([undefined, broken]);
    expect(faults).to.have.length(3);
    expect(faults[2]).to.be.instanceOf(ControlPlaneRequestError).and.include({ code: "UNAVAILABLE" });
    expect(opened.map(({ aborted }) => aborted)).to.deep.equal([true, true, true, true]);
  });

  it("counts a stream as silent that never begins.", async () => {
    const { open } = scriptedStream({ messages: [], isSilent: true }, { messages: ["stop"] });
    expect(await follow({ open, silenceMs: 20 })).to.deep.equal(["stop"]);
  });

  it("opens a stream from wherever the last one ended.", async () => {
    let cursor = 0;
    async function* open(): AsyncGenerator<string> {
      yield String(cursor);
    }
    const onLost = (): undefined => {
      cursor += 1;
    };
    const heard: string[] = [];
    for await (const message of followStream({ open, onLost, pauses: PAUSES, signal: new AbortController().signal })) {
      heard.push(message);
      if (heard.length === 3) break;
    }
    expect(heard).to.deep.equal(["0", "1", "2"]);
  });

  it("ends with what is thrown when it hears of a loss.", async () => {
    const { open } = scriptedStream({ messages: ["a"], fault: broken });
    const onLost = (fault: unknown): undefined => {
      throw fault;
    };
    expect(await rejection(follow({ open, onLost }))).to.equal(broken);
  });

  it("pauses longer from loss to loss, and anew after a stream that lasted.", async () => {
    const lasting = { messages: [], isSilent: true };
    const short = { messages: [], fault: broken };
    const { open, opened } = scriptedStream(short, short, short, short, short, short, lasting, { messages: ["stop"] });
    const lostAt: number[] = [];
    const pauses: number[] = [];
    const options: FollowOptions<string> = {
      open(signal) {
        const last = lostAt.at(-1);
        if (last !== undefined) pauses.push(performance.now() - last);
        return open(signal);
      },
      onLost: () => void lostAt.push(performance.now()) as undefined,
      signal: new AbortController().signal,
      pauses: { firstMs: 20, maxMs: 640 },
      silenceMs: 700,
    };
    expect(await follow(options)).to.deep.equal(["stop"]);
    expect(opened).to.have.length(8);
    // A platform timer may be a millisecond early.
    for (const [index, least] of [10, 20, 40, 80, 160, 320, 10].entries())
      expect(pauses[index]).to.be.at.least(least - 1);
    expect(pauses[6], "without the lasting one at least as long").to.be.below(320);
  });

  it("pauses as long as its listener says, where it says so.", async () => {
    const { open } = scriptedStream({ messages: ["a"] }, { messages: ["stop"] });
    const pauses = { firstMs: 600_000, maxMs: 600_000 };
    expect(await follow({ open, onLost: () => 0, pauses })).to.deep.equal(["a", "stop"]);
  });

  for (const [when, attempt] of [
    ["a stream is silent", { messages: ["a"], isSilent: true }],
    ["it pauses", { messages: ["a"] }],
  ] as const) {
    it(`ends without a fault when it is stopped while ${when}, and leaves nothing behind.`, async () => {
      const { open, opened } = scriptedStream(attempt);
      const stop = new AbortController();
      const lost: unknown[] = [];
      const onLost = (fault: unknown): undefined => void lost.push(fault);
      const pauses = { firstMs: 600_000, maxMs: 600_000 };
      const following = follow({ open, onLost, pauses, signal: stop.signal });
      setTimeout(() => stop.abort(), 20);
      expect(await following).to.deep.equal(["a"]);
      expect(opened.map(({ aborted }) => aborted)).to.deep.equal([true]);
      expect(lost).to.have.length("isSilent" in attempt ? 0 : 1);
      expect(getEventListeners(stop.signal, "abort")).to.deep.equal([]);
    });
  }

  it("opens nothing once it is stopped.", async () => {
    const { open, opened } = scriptedStream({ messages: ["a"] });
    expect(await follow({ open, signal: AbortSignal.abort() })).to.deep.equal([]);
    expect(opened).to.deep.equal([]);
  });
});
