import { expect } from "chai";
import { SessionValues } from "../../src/provenance/session-values.ts";
import { ObservedSessions } from "../../src/state/observed-sessions.ts";

describe("the cache of what sessions observed", () => {
  const KEY = Buffer.alloc(32);
  const valuesOf = (rows: number): SessionValues => {
    const row = { seq: 0, observationId: "obs_1", kind: "result", tool: undefined, valuesDigest: "" } as const;
    return SessionValues.from(
      KEY,
      Array.from({ length: rows }, (_, seq) => ({ ...row, seq, digests: {} })),
      false,
    );
  };

  it("fails for a session that is larger than all of it, without reading it again, and keeps others.", () => {
    const sessions = new ObservedSessions();
    const small = valuesOf(2);
    sessions.put("ses_small", small);
    sessions.put("ses_large", valuesOf(90_000));
    expect(sessions.knows("ses_large")).to.equal(true);
    expect(() => sessions.get("ses_large")).to.throw("more values than memory takes");
    expect(sessions.get("ses_small")).to.equal(small);
    sessions.put("ses_large", small);
    expect(sessions.get("ses_large")).to.equal(small);
  });
});
