import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { Extractor } from "../../src/observation/extractor.ts";

const KEY = randomBytes(32);
const HOLDER = { workspaceId: "w", agentId: "a" };

describe("extraction of values from contents", () => {
  const extractor = new Extractor();
  after(() => extractor.close());

  const digestsOf = (content: string, agentId = "a") =>
    extractor.digestsOf({ key: KEY, source: "result", content, declared: undefined, args: {} }, { ...HOLDER, agentId });

  for (const [length, content] of Object.entries({ short: "alpha beta", long: `${"ok ".repeat(1_400)}alpha beta` }))
    it(`gives digests of a ${length} content that keep no more memory than their own.`, async () => {
      const { untrusted } = (await digestsOf(content))?.digests ?? {};
      expect(untrusted?.length).to.be.greaterThan(8);
      expect(untrusted?.buffer.byteLength).to.equal(untrusted?.length);
    });

  it("lets the agents of a workspace take turns.", async () => {
    const done: string[] = [];
    const content = "ok ".repeat(2_000);
    const told = ["a", "a", "a", "a", "b"].map((agentId) => digestsOf(content, agentId).then(() => done.push(agentId)));
    await Promise.all(told);
    expect(done).to.deep.equal(["a", "a", "b", "a", "a"]);
  });
});
