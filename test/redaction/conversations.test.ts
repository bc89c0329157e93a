import { expect } from "chai";
import { createConversations } from "../../src/redaction/proxy/hide-request.ts";
import { createPlaceholders } from "../../src/redaction/text/placeholders.ts";
import { scrubberOf } from "./text/harness.ts";

const VALUES = 400;
const BOUND = 67_108_864;

describe("the placeholders of conversations", () => {
  it("are remembered up to a number of characters, and the oldest are forgotten past it.", async () => {
    const names = Array.from(
      { length: VALUES },
      (_, index) => `Zebulon ${"abcdefghij"[index % 10]}${"x".repeat(index % 200)}${index}`,
    );
    const scrubber = scrubberOf(names);
    const conversations = createConversations();
    const full = createPlaceholders({ scrubber });
    await full.hide(names.join(" and "));
    expect(full.textLength).to.be.above(10_000);
    let count = 0;
    for (; count < 2_000; count++) conversations.set(`conversation ${count}`, full);
    expect(conversations.calculatedSize).to.be.at.most(BOUND);
    expect(conversations.size).to.be.below(count);
    expect(conversations.get("conversation 0")).to.equal(undefined);
    expect(conversations.get(`conversation ${count - 1}`)).to.equal(full);
    conversations.clear();
  });
});
