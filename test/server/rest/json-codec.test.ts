import { readFileSync } from "node:fs";
import { create, fromBinary, type Message, toBinary, toJson } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import fc from "fast-check";
import { ControlPlaneError, ErrorReason } from "../../../src/errors.ts";
import { createJsonDecoder } from "../../../src/server/rest/json-decoder.ts";
import { findDuplicateKey } from "../../../src/server/rest/json-duplicate.ts";
import { createJsonEncoder } from "../../../src/server/rest/json-encoder.ts";
import { parseJson } from "../../../src/server/rest/json-text.ts";
import { library } from "./descriptors.ts";
import { messageArbitrary } from "./random-message.ts";

const { registry, message } = library();
const encoder = createJsonEncoder({ registry });
const decoder = createJsonDecoder({ registry });
const Book = message("Book");
const MAX_DEPTH = 64;

function decode(text: string): Message {
  return decoder.decode(Book, parseJson(Buffer.from(text), MAX_DEPTH));
}

function encode(book: Message): Record<string, unknown> {
  return JSON.parse(encoder.messageWriter(Book)(book));
}

function errorOf(action: () => unknown): ControlPlaneError {
  try {
    action();
  } catch (error) {
    if (error instanceof ControlPlaneError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

function cases<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../testdata/rest/${name}`, import.meta.url), "utf8"));
}

interface Accepted {
  readonly description: string;
  readonly given: string;
  readonly want: Record<string, unknown>;
}

interface Refused {
  readonly description: string;
  readonly given: string;
  readonly reason: keyof typeof ErrorReason;
  readonly field?: string;
  readonly message?: string;
}

describe("the JSON decoder", () => {
  for (const { description, given, reason, field, message: text = "" } of cases<Refused>("json-refused.json")) {
    it(`refuses ${description}.`, () => {
      const error = errorOf(() => decode(given));
      expect(ErrorReason[error.reason]).to.equal(reason);
      expect(error.metadata.field).to.equal(field);
      expect(error.violations.map((violation) => violation.field)).to.deep.equal(field === undefined ? [] : [field]);
      expect(error.message).to.contain(text);
    });
  }

  it("takes a map key `__proto__` as a key like any other.", () => {
    const { stock } = decode('{"stock":{"a b":1,"__proto__":2}}') as Message & { stock: object };
    expect(Object.entries(stock)).to.deep.equal([
      ["a b", 1],
      ["__proto__", 2],
    ]);
    expect(Object.getPrototypeOf(stock)).to.equal(Object.prototype);
  });

  it("shortens a name of the caller's choice that is very long.", () => {
    const error = errorOf(() => decode(`{"${"x".repeat(5000)}":1}`));
    expect(error.message.length).to.be.lessThan(200);
  });

  it("refuses bytes that are not UTF-8.", () => {
    const bytes = Buffer.concat([Buffer.from('{"title":"'), Buffer.from([0xff]), Buffer.from('"}')]);
    expect(errorOf(() => parseJson(bytes, MAX_DEPTH)).reason).to.equal(ErrorReason.MALFORMED_JSON);
  });

  for (const [open, close] of [
    ['{"sequel":', "}"],
    ['{"metadata":{"a":', "}}"],
    ['{"value":[', "]}"],
    ['{"x":', ""],
    ["[", ""],
  ] as const) {
    it(`refuses ${open}… nested a thousand times before it is parsed.`, () => {
      const text = open.repeat(1000) + close.repeat(1000);
      expect(errorOf(() => decode(text)).reason).to.equal(ErrorReason.BODY_TOO_DEEP);
    });
  }

  it("takes a body exactly as deep as the limit, and brackets in strings do not count.", () => {
    const deep = (levels: number) => `{"value":${"[".repeat(levels)}"[[[{\\"[["${"]".repeat(levels)}}`;
    expect(encode(decode(deep(MAX_DEPTH - 1))).value).to.be.an("array");
    expect(errorOf(() => decode(deep(MAX_DEPTH))).reason).to.equal(ErrorReason.BODY_TOO_DEEP);
  });

  it("finds a repeated key exactly when there is one.", () => {
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
    fc.assert(
      fc.property(value, (json) => {
        const text = `{"value":${json}}`;
        const isRepeated = countedMembers(JSON.parse(text)) < parseJson(Buffer.from(text), MAX_DEPTH).members;
        expect(findDuplicateKey(text) !== "").to.equal(isRepeated);
        if (isRepeated) expect(errorOf(() => decode(text)).reason).to.equal(ErrorReason.DUPLICATE_FIELD);
        else decode(text);
      }),
    );
  });
});

function countedMembers(json: unknown): number {
  if (typeof json !== "object" || json === null) return 0;
  const below = Object.values(json).reduce((sum: number, value) => sum + countedMembers(value), 0);
  return Array.isArray(json) ? below : below + Object.keys(json).length;
}

describe("the JSON codec", () => {
  for (const { description, given, want } of cases<Accepted>("json-accepted.json")) {
    it(`${description}.`, () => {
      const book = decode(given);
      // Nothing may be in the message that its binary form cannot carry.
      const seen = encode(fromBinary(Book, toBinary(Book, book)));
      for (const [field, value] of Object.entries(want)) expect(seen[field], field).to.deep.equal(value);
    });
  }

  it("writes every field of a message, in the order of the proto file.", () => {
    const names = Book.fields.map((field) => field.name);
    expect(Object.keys(encode(create(Book)))).to.deep.equal(names);
  });

  it("writes an undeclared number of an open enum as a number.", () => {
    const book = create(Book);
    reflect(Book, book).set(Book.field.genre as never, 77);
    expect(encode(book).genre).to.equal(77);
  });

  it("writes numbers that JSON does not have as null.", () => {
    const book = Object.assign(create(Book), { price: Number.NaN, rating: Number.NEGATIVE_INFINITY });
    expect(encode(book)).to.include({ price: null, rating: null });
  });

  it("escapes half a surrogate pair, and strings of any length alike.", () => {
    const texts = ["\ud800", `${"x".repeat(200)}"\n`, "\u2028", "\u007f", ""];
    expect(encode(Object.assign(create(Book), { tags: texts })).tags).to.deep.equal(texts);
  });

  it("writes an Any of an unknown type as its bytes.", () => {
    const extra = create(AnySchema, { typeUrl: "x/unknown.Type", value: new Uint8Array([1, 2]) });
    expect(encode(Object.assign(create(Book), { extra })).extra).to.deep.equal({
      "@type": "x/unknown.Type",
      value: "AQI=",
    });
  });

  it("reads back every message that it writes.", () => {
    fc.assert(
      fc.property(messageArbitrary(Book), (book) => {
        const text = encoder.messageWriter(Book)(book);
        const again = decode(text);
        expect(toJson(Book, again, { registry })).to.deep.equal(toJson(Book, book, { registry }));
        expect(toBinary(Book, again)).to.deep.equal(toBinary(Book, book));
        expect(encoder.messageWriter(Book)(again)).to.equal(text);
      }),
      { numRuns: 300 },
    );
  });

  it("never lets a random text through with anything but a fault of the request.", () => {
    const name = fc.constantFrom(...Book.fields.map((field) => field.name));
    fc.assert(
      fc.property(fc.dictionary(name, fc.jsonValue({ maxDepth: 3 })), (json) => {
        try {
          encode(decode(JSON.stringify(json)));
        } catch (error) {
          expect(error).to.be.instanceOf(ControlPlaneError);
        }
      }),
      { numRuns: 500 },
    );
  });
});
