import { expect } from "chai";
import { SetAside } from "../../src/gateway/set-aside.ts";

/** Counts the bytes that are held. */
class Held {
  bytes = 0;

  add(bytes: number): void {
    this.bytes += bytes;
  }
}

const LARGE = "x".repeat(100_000);

describe("members of results beside the official library", () => {
  it("come back as they were, in one response, and count as held.", async () => {
    const aside = new SetAside();
    const result = { content: [{ type: "text", text: LARGE }], structuredContent: { a: 1 }, isError: true, own: LARGE };
    const passed = await aside.take({ ...result, _meta: { a: 1 }, resultType: "complete" });
    expect(passed).to.deep.equal({ isError: true, _meta: { a: 1 }, resultType: "complete" });
    const held = new Held();
    const response = { jsonrpc: "2.0", id: 1, result: { ...passed, _meta: { a: 1, b: 2 } } } as const;
    expect(aside.putBack(response, held)).to.deep.equal({
      ...response,
      result: { ...result, _meta: { a: 1, b: 2 }, resultType: "complete" },
    });
    expect(held.bytes).to.be.at.least(2 * LARGE.length);
    expect(aside.putBack(response, held)).to.equal(response);
  });

  it("are none of an error's, and are forgotten with it.", async () => {
    const aside = new SetAside();
    await aside.take({ content: [] });
    const failed = { jsonrpc: "2.0", id: 1, error: { code: -32_000, message: "no" } } as const;
    expect(aside.putBack(failed, new Held())).to.equal(failed);
    const response = { jsonrpc: "2.0", id: 1, result: {} } as const;
    expect(aside.putBack(response, new Held())).to.equal(response);
  });

  it("do not come back if there is no room for them.", async () => {
    const aside = new SetAside();
    await aside.take({ content: [LARGE] });
    const full = {
      add() {
        throw new Error("full");
      },
    };
    expect(() => aside.putBack({ jsonrpc: "2.0", id: 1, result: {} }, full)).to.throw("full");
  });

  it("keep a member named `__proto__` one of the result's own.", async () => {
    const aside = new SetAside();
    await aside.take(JSON.parse('{"__proto__":{"a":1}}'));
    const { result } = aside.putBack({ jsonrpc: "2.0", id: 1, result: {} }, new Held());
    expect(JSON.stringify(result)).to.equal('{"__proto__":{"a":1}}');
  });
});
