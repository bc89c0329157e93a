import { expect } from "chai";
import type { Answer, CallOptions, Wire } from "../support/wires.ts";
import { type CaseRun, createCaseRun } from "./case-run.ts";
import { UNARY_FILES, type UnaryCase, unaryCases } from "./cases.ts";
import { expectError, expectPart, meaningOf } from "./compare.ts";
import { openService, type SharedService } from "./service.ts";

const HTTP_STATUS: Readonly<Record<string, number>> = {
  OK: 200,
  INVALID_ARGUMENT: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ALREADY_EXISTS: 409,
  FAILED_PRECONDITION: 400,
  RESOURCE_EXHAUSTED: 429,
  DEADLINE_EXCEEDED: 504,
  OUT_OF_RANGE: 400,
};
/** Where HTTP has a better word than the code, as the comments of `error_reason.proto` say. */
const STATUS_OF_REASON: Readonly<Record<string, number>> = {
  BODY_TOO_LARGE: 413,
  PERSON_DEACTIVATED: 409,
  SESSION_ENDED: 409,
  ESCALATION_RESOLVED: 409,
  PACK_CHANGED: 409,
  LIST_IN_USE: 409,
  LIST_CHANGED: 409,
  PROPOSAL_STALE: 409,
  PROPOSAL_ENDED: 409,
  PROPOSALS_FULL: 409,
  APPROVER_GROUP_IN_USE: 409,
  MCP_TOOL_CHANGED: 409,
  MCP_DEFINITION_CHANGED: 409,
  NOTIFICATIONS_NOT_CONFIGURED: 409,
  MCP_UPSTREAM_UNAVAILABLE: 502,
};

function optionsOf({ isExpired, raw }: UnaryCase, { fill }: CaseRun): Partial<CallOptions> {
  if (raw === undefined) return isExpired === undefined ? {} : { isExpired };
  const { json, hex } = raw;
  return {
    raw: {
      ...(json === undefined ? {} : { json: fill(json) }),
      ...(hex === undefined ? {} : { bytes: Buffer.from(hex.replaceAll(" ", ""), "hex") }),
    },
  };
}

async function answerOn(
  service: SharedService,
  wire: Wire,
  each: UnaryCase,
): Promise<{ answer: Answer; caseRun: CaseRun }> {
  const caseRun = await createCaseRun(service, wire);
  await caseRun.prepare(each.given ?? []);
  // Makes the workspace that the call is for, so that it is marked before and after.
  await caseRun.keyOf(each);
  const before = each.error && (await caseRun.mark());
  const answer = await caseRun.call(each, optionsOf(each, caseRun));
  if (before !== undefined) expect(await caseRun.mark(), "what was written").to.equal(before);
  return { answer, caseRun };
}

function check({ answer, caseRun }: { answer: Answer; caseRun: CaseRun }, each: UnaryCase): void {
  if (answer.status !== undefined) {
    expect(answer.status).to.equal(STATUS_OF_REASON[answer.reason ?? ""] ?? HTTP_STATUS[answer.code]);
  }
  if (each.error !== undefined) {
    expectError(answer, each.error);
    return;
  }
  expect(answer.code, answer.message).to.equal("OK");
  expectPart(caseRun.normalise(answer.body ?? null), each.want ?? {});
}

/** Chooses the wires of a case by its number. */
export type ChooseWires = (wires: readonly Wire[], index: number) => readonly Wire[];

async function run(each: UnaryCase, choose: (wires: readonly Wire[]) => readonly Wire[]): Promise<void> {
  const service = await openService();
  const wires = choose(service.wires.all.filter(({ name }) => each.only === undefined || each.only.includes(name)));
  const answers = await Promise.all(wires.map((wire) => answerOn(service, wire, each)));
  answers.forEach((each_, index) => {
    try {
      check(each_, each);
    } catch (error) {
      (error as Error).message = `${wires[index]?.name}: ${(error as Error).message}`;
      throw error;
    }
  });
  const [first, ...others] = answers.map(({ answer, caseRun }) => meaningOf(answer, caseRun.normalise, each.isLoose));
  for (const [index, other] of others.entries()) {
    expect(other, `${wires[index + 1]?.name} says the same as ${wires[0]?.name}`).to.deep.equal(first);
  }
}

/** Describes the unary cases, each run on the wires that are chosen for it, which must all say the same. */
export function describeUnaryCases(title: string, choose: ChooseWires): void {
  describe(title, () => {
    let index = 0;
    for (const file of UNARY_FILES) {
      describe(file, () => {
        for (const each of unaryCases(file)) {
          const number = index++;
          it(each.description, () => run(each, (wires) => choose(wires, number)));
        }
      });
    }
  });
}
