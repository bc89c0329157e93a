import { expect } from "chai";
import { createRequestId, presentationId } from "../../src/client/request-id.ts";
import { createId, idFromUuid } from "../../src/store/ids.ts";

const UUID_V8 = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("the request id of a presented approval", () => {
  it("follows from the call's own and the escalation's, and from nothing else.", () => {
    const [requestId, other] = [createRequestId(), createRequestId()];
    const escalationIds = Array.from({ length: 20 }, () => createId("esc"));
    const ids = escalationIds.map((escalationId) => presentationId(requestId, escalationId));
    expect(new Set([requestId, ...ids]).size).to.equal(21);
    for (const [index, escalationId] of escalationIds.entries()) {
      expect(ids[index]).to.match(UUID_V8).and.to.equal(presentationId(requestId, escalationId));
      expect(presentationId(other, escalationId)).not.to.equal(ids[index]);
    }
  });

  it("differs also for the escalation of the call's own decision, which has the same UUID.", () => {
    const requestIds = Array.from({ length: 100 }, createRequestId);
    const ids = requestIds.map((requestId) => presentationId(requestId, idFromUuid("esc", requestId)));
    expect(new Set([...requestIds, ...ids]).size).to.equal(200);
  });
});
