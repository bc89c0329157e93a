import { type DescMethod, getOption, type JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { access, Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { Answer, Wire } from "../support/wires.ts";
import { createCaseRun } from "./case-run.ts";
import { METHODS, nameOf, streamMethodOf, unaryMethodOf } from "./methods.ts";
import { openService } from "./service.ts";

const ROLES = ["admin", "operator", "agent", "auditor"] as const;
type RoleWord = (typeof ROLES)[number];

/** What a caller without a right to a method hears. */
const REFUSALS = ["KEY_MISSING", "KEY_INVALID", "ROLE_NOT_ALLOWED"];

const mayCall = (method: DescMethod, role: RoleWord): boolean =>
  getOption(method, access).roles.includes(Role[role.toUpperCase() as "ADMIN"]);

/** Every text field as `none`, so that a REST path has something to hold and nothing is found. */
function requestFor({ input }: DescMethod): JsonObject {
  const texts = input.fields.filter(({ fieldKind, name }) => fieldKind === "scalar" && /_id$|(^|_)name$/.test(name));
  return Object.fromEntries(texts.map(({ name }) => [name, "none"]));
}

async function reasonFor(wire: Wire, method: DescMethod, key: string | null): Promise<string | undefined> {
  const request = requestFor(method);
  if (method.methodKind === "unary") return (await wire.unary(unaryMethodOf(nameOf(method)), request, { key })).reason;
  const leaving = new AbortController();
  try {
    const messages = wire.stream(streamMethodOf(nameOf(method)), request, { key, signal: leaving.signal });
    // A stream that is open to the caller may have nothing to say; only refusals are waited for.
    await messages[Symbol.asyncIterator]().next();
    return undefined;
  } catch (error) {
    return (error as Answer).reason;
  } finally {
    leaving.abort();
  }
}

async function keysOn(wire: Wire): Promise<Record<RoleWord, string>> {
  const caseRun = await createCaseRun(await openService(), wire);
  const { body } = await caseRun.call({ call: "AgentService.RegisterAgent", request: { name: "x" } });
  expect(body).to.have.property("agent");
  const entries = ROLES.map(async (role): Promise<[RoleWord, string]> => {
    const request = { name: role, role };
    const made = await caseRun.call({ call: "AdminService.CreateApiKey", request });
    return [role, (made.body as JsonObject).secret as string];
  });
  return Object.fromEntries(await Promise.all(entries)) as Record<RoleWord, string>;
}

async function check(wire: Wire, method: DescMethod, keys: Record<RoleWord, string>): Promise<void> {
  expect(await reasonFor(wire, method, null), `${wire.name} without a key`).to.equal("KEY_MISSING");
  for (const role of ROLES) {
    const isOpen = mayCall(method, role);
    // An open stream stays open: that it is not refused is seen in the stream cases.
    if (isOpen && method.methodKind !== "unary") continue;
    const reason = await reasonFor(wire, method, keys[role]);
    if (isOpen) expect(reason, `${wire.name} as ${role}`).not.to.be.oneOf(REFUSALS);
    else expect(reason, `${wire.name} as ${role}`).to.equal("ROLE_NOT_ALLOWED");
  }
}

describe("who may call what, on every wire", () => {
  let keys: Record<RoleWord, string>[];

  before(async () => {
    const { wires } = await openService();
    keys = await Promise.all(wires.all.map(keysOn));
  });

  for (const method of METHODS.filter(({ methodKind }) => methodKind !== "bidi_streaming")) {
    it(`${nameOf(method)} is open to the roles of its option alone`, async () => {
      const { wires } = await openService();
      await Promise.all(wires.all.map((wire, index) => check(wire, method, keys[index] as Record<RoleWord, string>)));
    });
  }
});

/** All that a key of role `agent` may call, and the field that names the one thing it then acts on or reads. */
const OF_AGENTS: Readonly<Record<string, string | null>> = {
  "AgentService.GetAgent": "agent_id",
  "AgentService.GetAgentHistory": "agent_id",
  "AgentService.WatchAgent": "agent_id",
  "AuthorityService.CreateIntentContract": "agent_id",
  "AuthorityService.CreateSession": "agent_id",
  "AuthorityService.EndSession": "session_id",
  "AuthorityService.GetSession": "session_id",
  "AuthorityService.VerifyFederationToken": "token",
  "DryRunService.Preflight": "agent_id",
  "EnforcementService.ClaimDecision": "decision_id",
  "EnforcementService.Intercept": "agent_id",
  "EnforcementService.InterceptStream": "intercept",
  "EnforcementService.Observe": "session_id",
  "EnforcementService.ReportOutcome": "decision_id",
  "EscalationService.GetEscalation": "escalation_id",
  "EscalationService.GetEscalationStatus": "escalation_id",
  "EscalationService.WaitEscalation": "escalation_id",
  "EscalationService.WithdrawEscalation": "escalation_id",
  "RedactionService.Scrub": "text",
};

describe("a key of role agent, bound or not", () => {
  it("reaches no list and no watch of a workspace: only what one agent or escalation that it names is about.", () => {
    const open = METHODS.filter((method) => mayCall(method, "agent"));
    expect(open.map(nameOf).sort()).to.deep.equal(Object.keys(OF_AGENTS).sort());
    for (const method of open)
      expect(method.input.fields.map(({ name }) => name)).to.include(OF_AGENTS[nameOf(method)]);
  });
});
