import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { create, type Message } from "@bufbuild/protobuf";
import { Client, type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import { expect } from "chai";
import { EnforcementService, type InterceptStreamResponse } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { HeldTurns } from "../support/held-turns.ts";
import { startService, type TestService } from "../support/service.ts";
import { endOf, grpcConverse } from "./wires.ts";

const CONVERSE = EnforcementService.method.interceptStream;
const LARGE = "x".repeat(300_000);
/** Large messages on one stream. */
const MESSAGES = 12;

/** Waits for a condition; the time limit of the test is the only bound. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await setImmediate();
}

/** An `InterceptStream` with the replies that came so far. */
class Conversation {
  readonly call: ClientDuplexStream<Message, Message>;
  readonly replies: InterceptStreamResponse[] = [];
  readonly ended: ReturnType<typeof endOf>;
  readonly #agentId: string;

  constructor(client: Client, { key, agentId }: { readonly key: string; readonly agentId: string }) {
    this.#agentId = agentId;
    this.call = grpcConverse(client, CONVERSE, { "x-api-key": key });
    this.ended = endOf(this.call);
    this.call.on("data", (reply: Message) => this.replies.push(reply as InterceptStreamResponse));
  }

  /** Asks for a decision; gives the id of the request. */
  ask(actionContent: string): string {
    const requestId = randomUUID();
    const intercept = { agentId: this.#agentId, actionType: "read", actionContent, requestId };
    this.call.write(create(CONVERSE.input, { intercept }) as Message);
    return requestId;
  }

  async end(): Promise<void> {
    this.call.end();
    expect(await this.ended).to.equal(undefined);
  }

  /** What became of each request, in the order of the replies. */
  outcomes(): readonly (readonly [requestId: string, outcome: unknown])[] {
    return this.replies.map(({ requestId, result }) => [
      requestId,
      result.case === "response" ? result.value.decision : result.value,
    ]);
  }
}

describe("large messages on a stream", () => {
  let turns: HeldTurns;
  let service: TestService;
  let client: Client;
  let one: { readonly key: string; readonly agentId: string };
  let other: { readonly key: string; readonly agentId: string };

  before(async () => {
    turns = new HeldTurns();
    service = await startService({ largeRequests: turns });
    client = new Client(service.grpc, credentials.createInsecure());
    one = await service.workspace("one");
    other = await service.workspace("other");
  });
  after(async () => {
    turns.release();
    client?.close();
    await service?.stop();
  });
  beforeEach(() => {
    Object.assign(turns, { taken: 0, left: 0 });
  });

  const allowed = (ids: readonly string[]) => ids.map((id) => [id, Decision.ALLOW]);

  it("wait for their turns while small messages of another workspace are answered, and are answered in order.", async () => {
    turns.hold();
    const large = new Conversation(client, one);
    const ids = Array.from({ length: MESSAGES }, () => large.ask(LARGE));
    await until(() => turns.waiting.length > 0);
    const small = new Conversation(client, other);
    const smallIds: string[] = [];
    for (let n = 1; n <= MESSAGES; n++) {
      smallIds.push(small.ask(`small ${n}`));
      await until(() => small.replies.length === n);
    }
    await small.end();
    expect(small.outcomes()).to.deep.equal(allowed(smallIds));
    expect(large.replies).to.deep.equal([]);
    expect(turns.taken).to.equal(0);
    turns.release();
    await until(() => large.replies.length === MESSAGES);
    await large.end();
    expect(large.outcomes()).to.deep.equal(allowed(ids));
    // Decoded, checked and decided: three steps of each.
    expect(turns.taken).to.equal(3 * MESSAGES);
  });

  it("take turns with large messages of another workspace: neither waits for the end of the other's stream.", async () => {
    turns.hold();
    const [first, second] = [new Conversation(client, one), new Conversation(client, other)];
    const ids = Array.from({ length: MESSAGES }, () => first.ask(LARGE));
    await until(() => turns.waiting.includes("one"));
    const otherIds = [second.ask(LARGE), second.ask(LARGE)];
    let beforeSecond = 0;
    second.call.on("data", () => {
      beforeSecond = first.replies.length;
    });
    await until(() => turns.waiting.includes("other"));
    turns.release();
    await until(() => second.replies.length === 2);
    expect(beforeSecond).to.be.below(MESSAGES);
    await until(() => first.replies.length === MESSAGES);
    for (const each of [first, second]) await each.end();
    expect(first.outcomes()).to.deep.equal(allowed(ids));
    expect(second.outcomes()).to.deep.equal(allowed(otherIds));
  });

  it("come one step at a time, beside small ones on the same stream and on others.", async () => {
    let mostBetween = 0;
    let isDone = false;
    const others = (async () => {
      for (let before = 0; !isDone; before = turns.taken) {
        await setImmediate();
        mostBetween = Math.max(mostBetween, turns.taken - before);
      }
    })();
    const conversations = [one, one, other].map((as) => new Conversation(client, as));
    const asked = conversations.map((each) => {
      const ids: string[] = [];
      for (let n = 0; n < MESSAGES; n++) ids.push(each.ask(LARGE), each.ask("small"));
      return ids;
    });
    await Promise.all(conversations.map((each) => each.end()));
    isDone = true;
    await others;
    for (const [index, each] of conversations.entries()) {
      expect(each.outcomes()).to.have.deep.members(allowed(asked[index] ?? []));
    }
    expect(mostBetween).to.equal(1);
    expect(turns.taken).to.equal(3 * MESSAGES * conversations.length);
  });

  it("leave the queue when their stream is cancelled.", async () => {
    turns.hold();
    const leaving = new Conversation(client, one);
    leaving.ask(LARGE);
    await until(() => turns.waiting.length === 1);
    leaving.call.cancel();
    await until(() => turns.left === 1);
    expect(turns.waiting).to.deep.equal([]);
    await leaving.ended;
    turns.release();
  });
});
