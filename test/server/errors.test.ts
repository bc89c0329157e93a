import { ConnectError } from "@connectrpc/connect";
import { expect } from "chai";
import { CODE_BY_REASON, ControlPlaneError, ErrorReason, httpStatusFromReason } from "../../src/errors.ts";
import { connectErrorFrom, errorBodyFrom } from "../../src/server/errors.ts";
import { trailersFrom } from "../../src/server/grpc/status.ts";
import { connectOutcome, grpcOutcome, serviceErrorFrom } from "./harness.ts";

const VIOLATIONS = [
  { field: "rules[2].conditions.operator", description: "does not fit a string", reason: "OPERATOR_MISFIT" },
  { field: "rules[3].tool", description: "is not registered", reason: "TOOL_NOT_FOUND" },
];

describe("an error on its way out", () => {
  it("has the documented body over REST", () => {
    const metadata = { mandate_id: "mnd_1" };
    const error = new ControlPlaneError(ErrorReason.MANDATE_INVALID, "the mandate has 2 faults", metadata, {
      violations: VIOLATIONS,
    });
    expect(errorBodyFrom(error)).to.deep.equal({
      status: 400,
      headers: {},
      body: {
        ok: false,
        error: {
          code: 400,
          status: "INVALID_ARGUMENT",
          message: "the mandate has 2 faults",
          details: [
            { reason: "MANDATE_INVALID", domain: "agentcontrol.v1", metadata },
            { field_violations: VIOLATIONS },
          ],
        },
      },
    });
  });

  for (const reason of CODE_BY_REASON.keys()) {
    it(`says ${ErrorReason[reason]} alike on every wire`, () => {
      const error = new ControlPlaneError(
        reason,
        "something is wrong with `x`",
        { x: "1" },
        { violations: VIOLATIONS },
      );
      const overConnect = connectOutcome(connectErrorFrom(error));
      const overGrpc = grpcOutcome(serviceErrorFrom(trailersFrom(error)));
      expect(overGrpc).to.deep.equal(overConnect);
      expect(overConnect).to.deep.include({
        reason: ErrorReason[reason],
        metadata: { x: "1" },
        violations: VIOLATIONS,
      });
      const { status: http, body } = errorBodyFrom(error) as { status: number; body: { error: { status: string } } };
      expect([http, body.error.status]).to.deep.equal([httpStatusFromReason(reason), overConnect.code]);
    });
  }

  it("hides what is unknown behind the fixed text", () => {
    for (const thrown of [new Error("password is hunter2"), "hunter2", undefined, new ConnectError("hunter2")]) {
      const texts = [errorBodyFrom(thrown), connectErrorFrom(thrown).message, trailersFrom(thrown)["grpc-message"]];
      expect(decodeURI(JSON.stringify(texts)))
        .to.contain("the control plane failed")
        .and.not.contain("hunter2");
    }
  });

  it("survives a message with half of a surrogate pair", () => {
    const error = new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, "no agent `\ud800`");
    expect(decodeURI(trailersFrom(error)["grpc-message"] as string)).to.equal("no agent `\ufffd`");
    expect(connectErrorFrom(error).rawMessage.isWellFormed()).to.equal(true);
  });
});
