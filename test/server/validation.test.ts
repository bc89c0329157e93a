import {
  create,
  type DescField,
  type DescMessage,
  type Message,
  type MessageInitShape,
  ScalarType,
} from "@bufbuild/protobuf";
import { ListValueSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import type { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { CreateApiKeyRequestSchema } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { GetAgentRequestSchema, RegisterAgentRequestSchema } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ResolveEscalationRequestSchema } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { CreateMandateRequestSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { CreateWebhookRequestSchema } from "../../gen/agentcontrol/v1/webhook_service_pb.js";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { trailersFrom } from "../../src/server/grpc/status.ts";
import { createRequestChecks } from "../../src/server/validation.ts";
import { METHODS } from "../conformance/methods.ts";
import { ADMIN_KEY, GOOD, type Harness, startHarness, WIRES } from "./harness.ts";

const checkOf = createRequestChecks(64);

/** What is wrong with a request, a line per field. */
function faultsOf<T extends DescMessage>(schema: T, init: MessageInitShape<T>): readonly string[] {
  try {
    checkOf(schema)(create(schema, init));
    return [];
  } catch (error) {
    if (!(error instanceof ControlPlaneError)) throw error;
    return error.violations.map(({ field, description }) => `${field} ${description}`);
  }
}

describe("a field that is wrong", () => {
  it("is required when it is missing, whatever rule it breaks.", () => {
    expect(faultsOf(CreateApiKeyRequestSchema, {})).to.deep.equal([
      "name is required",
      "role is required: one of `admin`, `operator`, `agent`, `auditor`",
    ]);
    expect(faultsOf(InterceptRequestSchema, {})).to.deep.equal(["action_type is required", "agent_id is required"]);
    expect(faultsOf(ResolveEscalationRequestSchema, { escalationId: "esc_1" })).to.deep.equal([
      "resolution is required: one of `approved`, `rejected`",
    ]);
    expect(faultsOf(CreateWebhookRequestSchema, { url: "https://example.com" }).join()).to.match(
      /^events is required: at least 1 item$/,
    );
  });

  it("is told its bounds and its choices in plain words.", () => {
    expect(faultsOf(RegisterAgentRequestSchema, { name: "x".repeat(10_000) }).join()).to.match(
      /^name must have at most \d+ characters$/,
    );
    expect(faultsOf(GetAgentRequestSchema, { agentId: "a\u0000" })).to.deep.equal([
      "agent_id must not hold the character U+0000",
    ]);
    expect(faultsOf(CreateApiKeyRequestSchema, { name: "a", role: 99 as Role })).to.deep.equal([
      "role must be one of `admin`, `operator`, `agent`, `auditor`",
    ]);
    const rules = [{ type: RuleType.SEQUENCE, conditions: { countDecisions: [0] } }];
    expect(faultsOf(CreateMandateRequestSchema, { name: "m", rules }).join("; ")).to.include(
      "rules[0].conditions.count_decisions[0] must be one of `allow`, `block`, `escalate`",
    );
  });
});

const NUL = "a\u0000b";

/** Makes messages of a type that hold U+0000 in one text each, with the path of the text. */
function* messagesWithNul(
  schema: DescMessage,
  inside: readonly DescMessage[] = [],
): Generator<readonly [path: string, message: Message]> {
  if (inside.includes(schema)) return;
  const put = (field: DescField, value: unknown): Message => {
    const message = create(schema);
    const local = message as Message & Record<string, unknown>;
    if (field.oneof !== undefined) local[field.oneof.localName] = { case: field.localName, value };
    else local[field.localName] = field.fieldKind === "list" ? [value] : value;
    return message;
  };
  for (const field of schema.fields) {
    const at = field.fieldKind === "list" ? `${field.name}[0]` : field.name;
    if (field.message === undefined) {
      if (field.scalar === ScalarType.STRING) yield [at, put(field, NUL)];
    } else if (field.message.typeName === "google.protobuf.Struct") {
      yield [`${at}.deep[0].text`, put(field, { deep: [{ text: NUL }] })];
      yield [String.raw`${at}["a\u0000b"]`, put(field, { [NUL]: 1 })];
    } else if (field.message.typeName === "google.protobuf.Value") {
      yield [at, put(field, create(ValueSchema, { kind: { case: "stringValue", value: NUL } }))];
    } else if (field.message.typeName === "google.protobuf.ListValue") {
      const values = [{ kind: { case: "stringValue" as const, value: NUL } }];
      yield [`${at}[0]`, put(field, create(ListValueSchema, { values }))];
    } else {
      for (const [below, message] of messagesWithNul(field.message, [...inside, schema]))
        yield [`${at}.${below}`, put(field, message)];
    }
  }
}

describe("U+0000, which the database cannot keep,", () => {
  it("is refused in every text of every request, which the error names.", () => {
    let texts = 0;
    for (const { input } of METHODS) {
      const check = checkOf(input);
      for (const [path, message] of messagesWithNul(input)) {
        texts += 1;
        let fault: unknown;
        try {
          check(message);
        } catch (error) {
          fault = error;
        }
        expect(fault, `${input.name} ${path}`).to.be.instanceOf(ControlPlaneError);
        const { reason, violations } = fault as ControlPlaneError;
        expect(reason).to.equal(ErrorReason.INVALID_FIELD);
        expect(violations.map(({ field, description }) => `${field} ${description}`)).to.deep.equal([
          `${path} must not hold the character U+0000`,
        ]);
      }
    }
    expect(texts).to.be.above(300);
  });

  it("is named in every text of one request.", () => {
    const metadata = { note: NUL, list: [NUL, "b", Number.NaN], [NUL]: NUL };
    expect(faultsOf(InterceptRequestSchema, { ...GOOD, actionContent: NUL, metadata })).to.deep.equal([
      "action_content must not hold the character U+0000",
      "metadata.list[0] must not hold the character U+0000",
      "metadata.list[2] must be a finite number",
      "metadata.note must not hold the character U+0000",
      String.raw`metadata["a\u0000b"] must not hold the character U+0000`,
    ]);
  });

  const POISONED: readonly (readonly [over: object, field: string])[] = [
    [{ actionContent: NUL }, "action_content"],
    [{ metadata: { arguments: { lines: ["a", NUL] } } }, "metadata.arguments.lines[1]"],
    [{ metadata: { arguments: { [NUL]: 1 } } }, String.raw`metadata.arguments["a\u0000b"]`],
  ];
  let harness: Harness;
  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());

  for (const wire of WIRES) {
    it(`is refused over ${wire}, and nothing is decided.`, async () => {
      for (const [over, field] of POISONED) {
        const refused = await harness.intercept(wire, { ...GOOD, ...over }, { key: ADMIN_KEY });
        expect([refused.code, refused.reason, refused.metadata.field]).to.deep.equal([
          "INVALID_ARGUMENT",
          "INVALID_FIELD",
          field,
        ]);
      }
      expect(harness.seen).to.deep.equal([]);
    });
  }
});

describe("free JSON of very many values", () => {
  let harness: Harness;
  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());

  for (const wire of WIRES) {
    it(`is refused over ${wire}, and a little less is served.`, async () => {
      const ask = (count: number) =>
        harness.intercept(
          wire,
          { ...GOOD, metadata: { list: Array.from({ length: count }, () => null) } },
          { key: ADMIN_KEY },
        );
      expect((await ask(24_000)).code).to.equal("OK");
      const refused = await ask(26_000);
      expect([refused.code, refused.message]).to.deep.equal([
        "INVALID_ARGUMENT",
        "`metadata` must not hold more than 25,000 values",
      ]);
    });
  }
});

/** More than any header can hold, in letters that grow threefold where they are encoded. */
const MANY = Array.from({ length: 500 }, (_, index) => ({
  field: `rules[${index}].conditions.rules[0].operator`,
  description: "die Größe paßt nicht zum Typ des Feldes, gewählt wurde ≥",
  reason: "OPERATOR_MISFIT",
}));
const MESSAGE = `der Auftrag »${"ü".repeat(2_000)}« hat 500 Fehler`;

describe("an error with hundreds of violations", () => {
  let harness: Harness;

  before(async () => {
    harness = await startHarness({
      enforcement: {
        async intercept({ actionType, agentId }) {
          if (actionType === "send") return { decisionId: `dec_${agentId}` };
          const metadata = { field: "x".repeat(5_000) };
          throw new ControlPlaneError(ErrorReason.MANDATE_INVALID, MESSAGE, metadata, { violations: MANY });
        },
      },
    });
  });

  after(() => harness.stop());

  for (const wire of WIRES) {
    const isShort = wire === "grpc" || wire === "grpc-web";
    it(`${isShort ? "says how many it leaves out" : "shows all"} over ${wire}.`, async () => {
      const outcome = await harness.intercept(wire, { ...GOOD, actionType: "fail" }, { key: ADMIN_KEY });
      expect([outcome.code, outcome.reason]).to.deep.equal(["INVALID_ARGUMENT", "MANDATE_INVALID"]);
      const shown = outcome.violations.length;
      expect(outcome.violations).to.deep.equal(MANY.slice(0, shown));
      if (!isShort) expect([shown, outcome.message]).to.deep.equal([500, MESSAGE]);
      else {
        expect(shown).to.be.within(1, 60);
        expect(outcome.message).to.include(`; ${500 - shown} more violations are left out`);
        expect(outcome.metadata.omitted_violations).to.equal(String(500 - shown));
      }
    });
  }

  it("is under 6 kB in its gRPC trailers, as encoded.", () => {
    const fault = new ControlPlaneError(ErrorReason.MANDATE_INVALID, MESSAGE, {}, { violations: MANY });
    const { "grpc-message": message = "", "grpc-status-details-bin": details = "" } = trailersFrom(fault);
    expect(String(message).length + String(details).length).to.be.below(6_000);
  });

  it("keeps every other gRPC call on the connection alive.", async () => {
    const calls = Array.from({ length: 40 }, (_, index) =>
      harness.intercept("grpc", { ...GOOD, actionType: index % 2 === 0 ? "fail" : "send" }, { key: ADMIN_KEY }),
    );
    const outcomes = await Promise.all(calls);
    expect(outcomes.map(({ code }) => code)).to.deep.equal(
      outcomes.map((_, index) => (index % 2 === 0 ? "INVALID_ARGUMENT" : "OK")),
    );
  });
});
