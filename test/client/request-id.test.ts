import { expect } from "chai";
import { createRequestId } from "../../src/client/request-id.ts";

const UUID_4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("createRequestId", () => {
  afterEach("gives the platform its function back", () => {
    Reflect.deleteProperty(crypto, "randomUUID");
  });

  it("makes a new random UUID each time", () => {
    expect(createRequestId()).to.match(UUID_4).and.not.equal(createRequestId());
  });

  it("makes one on an insecure origin too, where the platform has only random values", () => {
    Object.defineProperty(crypto, "randomUUID", { value: undefined, configurable: true });
    const ids = Array.from({ length: 100 }, createRequestId);
    expect(ids.filter((id) => !UUID_4.test(id))).to.deep.equal([]);
    expect(new Set(ids)).to.have.property("size", 100);
  });
});
