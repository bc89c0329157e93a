import { create } from "@bufbuild/protobuf";
import { expect } from "chai";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { decideOn } from "../support/decide-on.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

/** More than one workspace lets wait. */
const MANY = 60_000;

describe("a workspace with too many actions waiting", () => {
  let workspace: TestWorkspace;

  before(async () => {
    workspace = await openWorkspace();
  });

  after(() => workspace.close());

  it("refuses more with OVERLOADED, and decides none whose caller went away", async () => {
    const { agent } = await workspace.agents.registerAgent({ name: "busy" });
    const request = create(InterceptRequestSchema, { agentId: agent?.agentId ?? "", actionType: "a" });
    const before = (await workspace.log.caughtUp()).seq;
    const reasons = new Map<ErrorReason, number>();
    const decide = async (): Promise<void> => {
      const action = actionFrom(request, workspace.adminCaller);
      const error: unknown = await decideOn(workspace.log, action, () => true).catch((each: unknown) => each);
      if (!(error instanceof ControlPlaneError)) throw new Error("the action was decided");
      reasons.set(error.reason, (reasons.get(error.reason) ?? 0) + 1);
    };
    await Promise.all(Array.from({ length: MANY }, decide));
    expect([...reasons.keys()].sort((a, b) => a - b)).to.deep.equal([ErrorReason.CANCELLED, ErrorReason.OVERLOADED]);
    expect([...reasons.values()].reduce((sum, each) => sum + each)).to.equal(MANY);
    expect((await workspace.log.caughtUp()).seq).to.equal(before);
  });
});
