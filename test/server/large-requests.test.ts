import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { ControlPlaneError } from "../../src/errors.ts";
import { LargeRequests, SMALL_REQUEST } from "../../src/server/large-requests.ts";

/** Keeps the event loop busy. */
function work(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe("the turns of large requests", () => {
  it("come one at a time, workspace by workspace.", async () => {
    const turns = new LargeRequests();
    const order: string[] = [];
    const step = (workspaceId: string, name: string) => turns.turn({ workspaceId }).then(() => void order.push(name));
    await Promise.all([step("a", "a1"), step("a", "a2"), step("a", "a3"), step("b", "b1"), step("c", "c1")]);
    expect(order).to.deep.equal(["a1", "b1", "c1", "a2", "a3"]);
    await step("a", "a4");
    expect(order.at(-1)).to.equal("a4");
  });

  it("leave out a step that was given up, which rejects at once with its reason.", async () => {
    const turns = new LargeRequests();
    const order: string[] = [];
    const ask = (workspaceId: string, name: string, signal?: AbortSignal) =>
      turns.turn({ workspaceId }, signal).then(() => void order.push(name));
    const [leaving, alone] = [new AbortController(), new AbortController()];
    const left = ask("a", "a1", leaving.signal).catch((reason: unknown) => order.push(String(reason)));
    const other = ask("c", "c1", alone.signal).catch((reason: unknown) => order.push(String(reason)));
    const staying = [ask("a", "a2", new AbortController().signal), ask("b", "b1")];
    leaving.abort("a1 left");
    alone.abort("c1 left");
    await Promise.all([left, other, ...staying]);
    expect(order).to.deep.equal(["a1 left", "c1 left", "a2", "b1"]);
    // One that left before it came, and one that leaves after its turn.
    expect(await turns.turn({ workspaceId: "a" }, leaving.signal).catch(String)).to.equal("a1 left");
    const late = new AbortController();
    await ask("a", "a3", late.signal);
    late.abort("a3 left");
    await ask("c", "c2");
    expect(order.slice(4)).to.deep.equal(["a3", "c2"]);
  });

  it("are for large requests alone.", async () => {
    const turns = new LargeRequests();
    const order: string[] = [];
    const { signal } = new AbortController();
    const ask = (bytes: number) =>
      turns.giveWay({ workspaceId: "a", bytes, signal }).then(() => void order.push(`${bytes} bytes`));
    await Promise.all([ask(SMALL_REQUEST + 1), ask(SMALL_REQUEST), ask(0)]);
    expect(order).to.deep.equal([`${SMALL_REQUEST} bytes`, "0 bytes", `${SMALL_REQUEST + 1} bytes`]);
  });

  it("leave turns of the event loop to everything else between two steps, also to steps that are asked for meanwhile.", async () => {
    const turns = new LargeRequests();
    const stepsBetween: number[] = [];
    let steps = 0;
    let isDone = false;
    const others = (async () => {
      for (let before = 0; !isDone; before = steps) {
        await setImmediate();
        stepsBetween.push(steps - before);
      }
    })();
    const request = async (): Promise<void> => {
      for (let count = 0; count < 3; count++) {
        await turns.turn({ workspaceId: "a" });
        steps++;
        work(4);
      }
    };
    await Promise.all(Array.from({ length: 10 }, request));
    isDone = true;
    await others;
    expect(steps).to.equal(30);
    expect(Math.max(...stepsBetween)).to.equal(1);
    // The loop rests after each step as long as the step took, and turns many times meanwhile.
    expect(stepsBetween.length).to.be.above(3 * steps);
  });

  it("bounds the steps that wait: a workspace and an agent have their shares, and another workspace is served.", async () => {
    const turns = new LargeRequests();
    const leaving = new AbortController();
    const waiting: Promise<unknown>[] = [];
    /** Asks for steps at once. Returns the refusals. */
    const ask = async (count: number, holder: { workspaceId: string; agentId?: string }) => {
      const refusals: ControlPlaneError[] = [];
      const keepRefusal = (error: unknown): void => {
        if (error instanceof ControlPlaneError) refusals.push(error);
      };
      const asked = Array.from({ length: count }, () => turns.turn(holder, leaving.signal).catch(keepRefusal));
      waiting.push(...asked);
      await setImmediate();
      return refusals;
    };
    const ofAgent = await ask(900, { workspaceId: "a", agentId: "1" });
    // A fifth of 4,096 wait.
    expect(ofAgent.length).to.be.within(79, 81);
    expect(ofAgent[0]?.metadata).to.include({ pot: "large_requests", party: "agent", retry_after_seconds: "2" });
    const ofWorkspace = await ask(1_500, { workspaceId: "a" });
    expect(ofWorkspace.length).to.be.above(200);
    expect(ofWorkspace[0]?.metadata).to.include({ pot: "large_requests", party: "workspace" });
    const served = turns.turn({ workspaceId: "b", agentId: "1" });
    await served;
    leaving.abort(new Error("left"));
    await Promise.all(waiting);
    await turns.turn({ workspaceId: "a", agentId: "1" });
  });
});
