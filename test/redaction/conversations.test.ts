import { expect } from "chai";
import { Conversations } from "../../src/redaction/proxy/conversations.ts";
import { createPlaceholders } from "../../src/redaction/text/placeholders.ts";
import { failureOf } from "../support/harness.ts";
import { scrubberOf } from "./text/harness.ts";

const VALUES = 400;
/** One workspace alone has a half of it. */
const SIZE = 134_217_728;

const NAMES = Array.from(
  { length: VALUES },
  (_, index) => `Zebulon ${"abcdefghij"[index % 10]}${"x".repeat(index % 200)}${index}`,
);

describe("the placeholders of conversations", () => {
  const own = { workspaceId: "own", agentId: null };
  const other = { workspaceId: "other", agentId: null };
  const empty = () => createPlaceholders({ scrubber: scrubberOf([]) });

  it("are remembered up to a number of characters, and the oldest are forgotten past it.", async () => {
    const conversations = new Conversations();
    const full = createPlaceholders({ scrubber: scrubberOf(NAMES) });
    await full.hide(NAMES.join(" and "));
    expect(full.textLength).to.be.above(10_000);
    let count = 0;
    for (; count < 2_000; count++) conversations.keep(own, `conversation ${count}`, full)();
    expect(conversations.characters).to.be.within(SIZE / 2 - 200_000, SIZE / 2);
    expect(conversations.size).to.be.below(count);
    expect(conversations.get("conversation 0")).to.equal(undefined);
    expect(conversations.get(`conversation ${count - 1}`)).to.equal(full);
    conversations.close();
    expect([conversations.size, conversations.characters]).to.deep.equal([0, 0]);
  });

  it("are refused to a workspace whose requests in flight hold its share; another goes on, and its own are kept.", async () => {
    const conversations = new Conversations(100_000);
    const kept = empty();
    const end = conversations.keep(other, "other", kept);
    const ends: (() => void)[] = [];
    let refusal: Awaited<ReturnType<typeof failureOf>> | undefined;
    while (refusal === undefined) {
      const key = `own ${ends.length}`;
      const attempt = async () => void ends.push(conversations.keep(own, key, empty()));
      await attempt().catch(async (error: unknown) => {
        refusal = await failureOf(Promise.reject(error));
      });
    }
    expect(refusal.metadata).to.include({ pot: "proxy_conversations", party: "workspace", retry_after_seconds: "10" });
    expect(ends).to.have.length(11);
    end();
    expect(conversations.get("other")).to.equal(kept);
    conversations.keep(other, "other 2", empty())();
    expect(conversations.get("other")).to.equal(kept);
    for (const each of ends) each();
    conversations.keep(own, "own again", empty())();
    expect(conversations.get("own again")).not.to.equal(undefined);
    expect(conversations.get("own 0")).to.equal(undefined);
    expect(conversations.get("other")).to.equal(kept);
    conversations.close();
  });

  it("of an agent are bounded by a part of its workspace's.", async () => {
    const conversations = new Conversations(100_000);
    const ends: (() => void)[] = [];
    const agent = { workspaceId: "own", agentId: "agt_1" };
    for (let n = 0; n < 4; n++) ends.push(conversations.keep(agent, `${n}`, empty()));
    const refusal = await failureOf(() => conversations.keep(agent, "one more", empty()));
    expect(refusal.metadata).to.include({ pot: "proxy_conversations", party: "agent" });
    conversations.keep(own, "without an agent", empty());
    for (const end of ends) end();
    conversations.close();
  });

  it("stay as they are where their growth is refused, for the requests that use them.", async () => {
    const conversations = new Conversations(100_000);
    const growing = createPlaceholders({ scrubber: scrubberOf(NAMES) });
    const end = conversations.keep(own, "one", growing);
    const before = conversations.characters;
    await growing.hide(NAMES.join(" and "));
    const refusal = await failureOf(() => conversations.keep(own, "one", growing));
    expect(refusal.metadata).to.include({ pot: "proxy_conversations", party: "workspace" });
    expect([conversations.get("one"), conversations.characters]).to.deep.equal([growing, before]);
    // A conversation that starts over is counted beside the one that is still in use.
    const again = conversations.keep(own, "one", empty());
    expect(conversations.characters).to.be.above(before);
    end();
    expect(conversations.characters).to.be.within(before - 100, before + 100);
    again();
    conversations.close();
    expect(conversations.characters).to.equal(0);
  });

  it("grow with their conversation, which stays one, and are released once.", async () => {
    const conversations = new Conversations();
    const growing = createPlaceholders({ scrubber: scrubberOf(NAMES) });
    const first = conversations.keep(own, "one", growing);
    const before = conversations.characters;
    await growing.hide(NAMES.join(" and "));
    const second = conversations.keep(own, "one", growing);
    expect(conversations.characters).to.be.above(before + 10_000);
    expect(conversations.size).to.equal(1);
    for (const end of [first, first, second, second]) end();
    conversations.close();
    expect(conversations.characters).to.equal(0);
  });
});
