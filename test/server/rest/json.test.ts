import { readFileSync } from "node:fs";
import { create, type DescMessage, fromBinary, type Message, toBinary, toJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import { DecisionSchema } from "../../../gen/agentcontrol/v1/resources_pb.js";
import { ControlPlaneError, ErrorReason } from "../../../src/errors.ts";
import { readJsonAtOnce } from "../../../src/json/read-json.ts";
import { readRequestJson } from "../../../src/server/request-json.ts";
import { JsonReaders, JsonWriters } from "../../../src/server/rest/json.ts";
import { METHODS } from "../../conformance/methods.ts";
import { plainFromMessage } from "../../support/plain-json.ts";
import { messageArbitrary } from "./random-message.ts";

const readers = new JsonReaders();
const writers = new JsonWriters();
const MAX_DEPTH = 64;
const ROUTED = METHODS.filter(({ methodKind }) => methodKind !== "bidi_streaming");
const REQUESTS = [...new Set(ROUTED.map(({ input }) => input))];
const RESPONSES = [...new Set(ROUTED.map(({ output }) => output))];
const Mandate = messageNamed("CreateMandateRequest");
const Window = messageNamed("CreateTemporalWindowRequest");

function messageNamed(name: string): DescMessage {
  const found = [...REQUESTS, ...RESPONSES].find((desc) => desc.name === name);
  if (found === undefined) throw new Error(`there is no message ${name}`);
  return found;
}

const read = (desc: DescMessage, text: string): Message =>
  readers.message(desc)(readJsonAtOnce(text, { maxDepth: MAX_DEPTH, maxValues: 60_000 }));
const parse = async (text: string | Buffer): Promise<unknown> =>
  (await readRequestJson(Buffer.from(text), MAX_DEPTH)).value;
const readBody = async (desc: DescMessage, text: string): Promise<Message> => readers.message(desc)(await parse(text));
const write = (desc: DescMessage, message: Message): Record<string, unknown> =>
  JSON.parse(writers.message(desc)(message));

async function errorOf(action: () => unknown): Promise<ControlPlaneError> {
  try {
    await action();
  } catch (error) {
    if (error instanceof ControlPlaneError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

function cases<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../testdata/rest/${name}`, import.meta.url), "utf8"));
}

interface Case {
  readonly description: string;
  /** The type of the message; `CreateMandateRequest` unless it is said. */
  readonly message?: string;
  /** The JSON text. */
  readonly given: string;
}

interface Accepted extends Case {
  /** Fields of the message as it is written again. */
  readonly want: Record<string, unknown>;
}

interface Refused extends Case {
  readonly reason: keyof typeof ErrorReason;
  readonly field?: string;
  readonly text?: string;
}

describe("the JSON reader", () => {
  for (const { description, message = Mandate.name, given, reason, field, text = "" } of cases<Refused>(
    "json-refused.json",
  )) {
    it(`refuses ${description}.`, async () => {
      const error = await errorOf(() => readBody(messageNamed(message), given));
      expect([ErrorReason[error.reason], error.metadata.field]).to.deep.equal([reason, field]);
      expect(error.violations.map((violation) => violation.field)).to.deep.equal(field === undefined ? [] : [field]);
      expect(error.message).to.contain(text);
    });
  }

  it("shortens a name of the caller's choice that is very long.", async () => {
    const error = await errorOf(() => readBody(Mandate, `{"${"x".repeat(5000)}":1}`));
    expect(error.message.length).to.be.lessThan(200);
  });

  it("refuses bytes that are not UTF-8.", async () => {
    const bytes = Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xff]), Buffer.from('"}')]);
    expect((await errorOf(() => parse(bytes))).reason).to.equal(ErrorReason.MALFORMED_JSON);
  });

  for (const [open, close] of [
    ['{"rules":[', "]}"],
    ['{"metadata":{"a":', "}}"],
    ['{"x":', ""],
    ["[", ""],
  ] as const) {
    it(`refuses ${open}… nested a thousand times before it is parsed.`, async () => {
      const text = open.repeat(1000) + close.repeat(1000);
      expect((await errorOf(() => readBody(Mandate, text))).reason).to.equal(ErrorReason.BODY_TOO_DEEP);
    });
  }

  it("takes a body exactly as deep as the limit, and brackets in strings do not count.", async () => {
    const Paste = messageNamed("PasteToolRequest");
    const deep = (levels: number) => `{"definition":${"[".repeat(levels)}"[[[{\\"[["${"]".repeat(levels)}}`;
    expect(plainFromMessage(Paste, read(Paste, deep(MAX_DEPTH - 1)))).to.have.property("definition");
    expect((await errorOf(() => readBody(Paste, deep(MAX_DEPTH)))).reason).to.equal(ErrorReason.BODY_TOO_DEEP);
  });

  it("finds a repeated key exactly when there is one.", async () => {
    const value = fc.letrec<{ json: string }>((tie) => ({
      json: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom("1", '"a:{\\"}"', "null", '"\\\\"'),
        fc.array(tie("json"), { maxLength: 3 }).map((items) => `[${items.join(", ")}]`),
        fc
          .array(fc.tuple(fc.constantFrom('"a"', '"b"', '"\\u0061"', '"\\""'), tie("json")), { maxLength: 3 })
          .map((pairs) => `{${pairs.map(([key, json]) => `${key} : ${json}`).join(",")}}`),
      ),
    })).json;
    await fc.assert(
      fc.asyncProperty(value, async (json) => {
        // No string of these has a colon outside of a key but this one.
        const members = json.replaceAll('"a:{\\"}"', "1").split(":").length - 1;
        if (membersOf(JSON.parse(json)) === members) expect(await parse(json)).to.deep.equal(JSON.parse(json));
        else expect((await errorOf(() => parse(json))).reason).to.equal(ErrorReason.DUPLICATE_FIELD);
      }),
    );
  });

  it("reads every request as the interface has it.", () => {
    fc.assert(
      fc.property(fc.constantFrom(...REQUESTS).chain(withMessage), ({ desc, message }) => {
        const seen = read(desc, JSON.stringify(plainFromMessage(desc, message)));
        expect(toBinary(desc, seen)).to.deep.equal(toBinary(desc, message));
      }),
      { numRuns: 1000 },
    );
  });

  it("never lets a random text through with anything but a fault of the request.", async () => {
    const name = fc.constantFrom(...Mandate.fields.map((field) => field.name));
    await fc.assert(
      fc.asyncProperty(fc.dictionary(name, fc.jsonValue({ maxDepth: 3 })), async (json) => {
        try {
          await readBody(Mandate, JSON.stringify(json));
        } catch (error) {
          expect(error).to.be.instanceOf(ControlPlaneError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

function membersOf(json: unknown): number {
  if (typeof json !== "object" || json === null) return 0;
  const below = Object.values(json).reduce((sum: number, value) => sum + membersOf(value), 0);
  return Array.isArray(json) ? below : below + Object.keys(json).length;
}

const withMessage = (desc: DescMessage) => messageArbitrary(desc).map((message) => ({ desc, message }));

describe("the JSON codec", () => {
  for (const { description, message = Mandate.name, given, want } of cases<Accepted>("json-accepted.json")) {
    it(`${description}.`, () => {
      const desc = messageNamed(message);
      // Nothing may be in the message that its binary form cannot carry.
      const seen = write(desc, fromBinary(desc, toBinary(desc, read(desc, given))));
      for (const [field, value] of Object.entries(want)) expect(seen[field], field).to.deep.equal(value);
    });
  }

  it("reads back every request that it writes.", () => {
    fc.assert(
      fc.property(fc.constantFrom(...REQUESTS).chain(withMessage), ({ desc, message }) => {
        const text = writers.message(desc)(message);
        const again = read(desc, text);
        expect(toJson(desc, again)).to.deep.equal(toJson(desc, message));
        expect(writers.message(desc)(again)).to.equal(text);
      }),
      { numRuns: 500 },
    );
  });
});

describe("the JSON writer", () => {
  it("writes every response as the interface has it.", () => {
    fc.assert(
      fc.property(fc.constantFrom(...RESPONSES).chain(withMessage), ({ desc, message }) => {
        expect(write(desc, message)).to.deep.equal(plainFromMessage(desc, message));
      }),
      { numRuns: 1000 },
    );
  });

  it("writes every field of a message, in the order of the proto file.", () => {
    for (const desc of RESPONSES) {
      const names = desc.fields.map((field) => field.name);
      expect(Object.keys(write(desc, create(desc))), desc.name).to.deep.equal(names);
    }
  });

  it("writes an undeclared number of an open enum as a number.", () => {
    const Response = messageNamed("InterceptResponse");
    expect(DecisionSchema.values.map(({ number }) => number)).not.to.include(77);
    expect(write(Response, Object.assign(create(Response), { decision: 77 })).decision).to.equal(77);
  });

  it("writes numbers that JSON does not have as null.", () => {
    const Response = messageNamed("InterceptResponse");
    for (const trustScore of [Number.NaN, Number.NEGATIVE_INFINITY]) {
      expect(write(Response, Object.assign(create(Response), { trustScore })).trust_score).to.equal(null);
    }
  });

  it("escapes half a surrogate pair, and strings of any length alike.", () => {
    const texts = ["\ud800", `${"x".repeat(200)}"\n`, "\u2028", "\u007f", ""];
    expect(write(Window, Object.assign(create(Window), { actionTypes: texts })).action_types).to.deep.equal(texts);
  });
});

describe("times", () => {
  const instant = fc.date({
    min: new Date("0001-01-01T00:00:00Z"),
    max: new Date("9999-12-31T23:59:59.999Z"),
    noInvalidDate: true,
  });
  const again = (text: string) => write(Window, read(Window, JSON.stringify({ starts_at: text }))).starts_at;

  it("are what the platform's own dates say, both ways.", () => {
    fc.assert(
      fc.property(instant, (date) => {
        expect(again(date.toISOString())).to.equal(date.toISOString().replace(".000Z", "Z"));
      }),
      { numRuns: 2000 },
    );
  });

  it("exist on every day around leap days and the turns of centuries, and on no other.", () => {
    for (const year of ["0001", "0100", "0400", "1600", "1900", "2000", "2024", "2025", "2100", "9999"]) {
      for (let month = 1; month <= 12; month++) {
        const days = new Date(Date.UTC(Number(year) + 400, month, 0)).getUTCDate();
        for (let day = 27; day <= 32; day++) {
          const text = `${year}-${String(month).padStart(2, "0")}-${day}T00:00:00Z`;
          if (day <= days) expect(again(text)).to.equal(text);
          else expect(() => again(text), text).to.throw("RFC 3339");
        }
      }
    }
  });

  it("count offsets from UTC.", () => {
    fc.assert(
      fc.property(instant, fc.integer({ min: -23 * 60 - 59, max: 23 * 60 + 59 }), (date, minutes) => {
        const local = new Date(date.getTime() + minutes * 60_000);
        fc.pre(local.getUTCFullYear() >= 1 && local.getUTCFullYear() <= 9999);
        const [hour, minute] = [Math.abs(minutes) / 60, Math.abs(minutes) % 60].map((n) =>
          String(Math.floor(n)).padStart(2, "0"),
        );
        const text = `${local.toISOString().slice(0, -1)}${minutes < 0 ? "-" : "+"}${hour}:${minute}`;
        expect(again(text)).to.equal(date.toISOString().replace(".000Z", "Z"));
      }),
    );
  });

  for (const text of [
    "",
    "2026-01-31",
    "2026-01-31T12:00:00",
    "2026-1-31T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-01 00:00:00Z",
    "2026-01-31T24:00:00Z",
    "2026-01-01T00:00:60Z",
    "2026-01-01T00:60:00Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00.1234567890Z",
    "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00+0100",
    "2026-01-01T00:00:00z",
    "2026-01-01T00:00:00Z ",
    "+002026-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
  ]) {
    it(`are never \`${text}\`.`, async () => {
      expect((await errorOf(() => again(text))).metadata.field).to.equal("starts_at");
    });
  }
});
