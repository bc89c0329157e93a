import { expect } from "chai";
import { mayPassOn, traceContextFrom, traceparentOf } from "../../src/tracing/trace-context.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const VALID = `00-${TRACE}-${SPAN}-01`;

describe("a trace context", () => {
  it("is read from a valid traceparent, with its flag and state.", () => {
    const place = { traceId: TRACE, spanId: SPAN, isRemote: true };
    expect(traceContextFrom(VALID, "a=b")).to.deep.equal({ ...place, isSampled: true, state: "a=b" });
    expect(traceContextFrom(`00-${TRACE}-${SPAN}-00`)).to.deep.equal({ ...place, isSampled: false, state: undefined });
    expect(traceContextFrom(`00-${TRACE}-${SPAN}-03`)?.isSampled).to.equal(true);
    expect(traceContextFrom(`cc-${TRACE}-${SPAN}-01-what-comes-later`)?.traceId).to.equal(TRACE);
    expect(traceparentOf({ ...place, isSampled: true, state: undefined })).to.equal(VALID);
  });

  for (const [what, traceparent] of [
    ["nothing", undefined],
    ["no text", 7],
    ["an empty text", ""],
    ["upper case", VALID.toUpperCase()],
    ["the version ff", `ff-${TRACE}-${SPAN}-01`],
    ["a member behind version 00", `${VALID}-x`],
    ["a trace id of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["a span id of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["a short trace id", `00-${TRACE.slice(1)}-${SPAN}-01`],
    ["two of them", `${VALID}, ${VALID}`],
    ["a line feed at the end", `${VALID}\n`],
    ["a version of the future without end", `cc-${TRACE}-${SPAN}-01-${"x".repeat(10_000)}`],
  ] as const) {
    it(`is not read from ${what}.`, () => {
      expect(traceContextFrom(traceparent, "a=b")).to.equal(undefined);
      if (traceparent !== undefined) expect(mayPassOn("traceparent", traceparent)).to.equal(false);
    });
  }

  it("keeps a tracestate of at most 512 characters of ASCII, and passes a baggage of at most 8192 on.", () => {
    const longest = `a=${"b".repeat(510)}`;
    expect(traceContextFrom(VALID, longest)?.state).to.equal(longest);
    for (const bad of [`${longest}b`, "a=ü", "a=b\r\nx: y", "", 7]) {
      expect(traceContextFrom(VALID, bad)).to.deep.include({ traceId: TRACE, state: undefined });
      expect(mayPassOn("tracestate", bad)).to.equal(false);
    }
    expect(mayPassOn("baggage", "a=b")).to.equal(true);
    expect(mayPassOn("baggage", "b".repeat(8_193))).to.equal(false);
  });
});
