import { expect } from "chai";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { followEscalation } from "../../src/client/follow-escalation.ts";
import { ControlPlaneRequestError } from "../../src/client/index.ts";
import { type Fixture, rejection, startFixture } from "./harness.ts";

describe("followEscalation", () => {
  let fixture: Fixture;

  before("starts a server whose heartbeats are far apart", async () => {
    fixture = await startFixture({ ACP_STREAM_HEARTBEAT_MS: "600000" });
  });
  after("stops the server", () => fixture?.stop());

  it("counts a stream that falls silent after its first message as broken", async () => {
    const agentId = await fixture.registerAgent();
    const { escalationId } = await fixture.admin.intercept({ actionType: "review.pay", actionContent: "", agentId });
    const health = { isDelivering: false };
    const states: boolean[] = [];
    const recorded = {
      get isDelivering() {
        return health.isDelivering;
      },
      set isDelivering(state: boolean) {
        states.push(state);
        health.isDelivering = state;
      },
    };
    const client = fixture.admin.client(EscalationService);
    const { signal } = new AbortController();
    const following = followEscalation(client, escalationId ?? "", { signal, health: recorded, silenceMs: 300 });
    const error = await rejection(following);
    expect(error).to.be.instanceOf(ControlPlaneRequestError).and.include({ code: "UNAVAILABLE" });
    expect(states).to.deep.equal([true, false]);
  });
});
