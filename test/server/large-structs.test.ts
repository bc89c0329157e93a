import { create, fromBinary, fromJson, type JsonObject, type Message, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { expect } from "chai";
import fc from "fast-check";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { RegisterToolRequestSchema } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { doInTurns } from "../../src/async/work.ts";
import { putStructs, splitBinary, splitJson } from "../../src/server/large-structs.ts";

const schema = InterceptRequestSchema;
const METADATA = schema.field.metadata.number;

const encoded = (request: object): Uint8Array => toBinary(schema, create(schema, request));
const record = (number: number, bytes: Uint8Array): Uint8Array =>
  new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(bytes).finish();
const text = (number: number, value: string): Uint8Array => record(number, Buffer.from(value));
const joined = (...parts: Uint8Array[]): Uint8Array => Buffer.concat(parts);
const split = (bytes: Uint8Array) => doInTurns(splitBinary(schema, bytes));

/** Returns the message with what was split off, or the library's own if nothing was. */
async function read(bytes: Uint8Array): Promise<Message> {
  const found = await split(bytes);
  const message = fromBinary(schema, found?.rest ?? bytes);
  putStructs(message, found?.structs ?? new Map());
  return message;
}

const objects = fc
  .object({ key: fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "")), maxDepth: 5 })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);
const requests = fc.record({
  agentId: fc.string(),
  actionType: fc.string(),
  actionContent: fc.string(),
  metadata: objects,
});

/** Shows a request with every member of its metadata, `__proto__` included, in their order. */
const shown = (request: Message & { readonly metadata?: JsonObject | undefined }): string =>
  JSON.stringify({ metadata: request.metadata, ...request });

describe("free JSON of large requests", () => {
  it("is read from JSON as the library reads it.", () => {
    fc.assert(
      fc.property(requests, (request) => {
        const wanted = fromJson(schema, request);
        const { rest, structs } = splitJson(schema, request);
        const message = fromJson(schema, rest);
        expect(message.metadata).to.equal(undefined);
        putStructs(message, structs);
        expect(shown(message)).to.equal(shown(wanted));
      }),
    );
  });

  it("is read from bytes as the library reads it.", async () => {
    await fc.assert(
      fc.asyncProperty(requests, async (request) => {
        const bytes = encoded(request);
        const found = await split(bytes);
        expect(found?.structs.size).to.equal(1);
        expect(fromBinary(schema, found?.rest ?? bytes).metadata).to.equal(undefined);
        expect(shown(await read(bytes))).to.equal(shown(fromBinary(schema, bytes)));
      }),
    );
  });

  it("is read from any bytes as the library reads or refuses them.", async () => {
    const whole = encoded({ agentId: "a", metadata: { a: [1, true, null, { b: "c" }], __proto__x: {} } });
    const outcome = async (reading: () => Message | Promise<Message>): Promise<string> => {
      try {
        return shown(await reading());
      } catch (error) {
        return String(error);
      }
    };
    const flip = fc.record({ at: fc.nat(whole.length - 1), to: fc.nat(255) });
    await fc.assert(
      fc.asyncProperty(fc.array(flip, { maxLength: 3 }), fc.nat(whole.length), async (flips, cut) => {
        const bytes = Uint8Array.from(whole);
        for (const { at, to } of flips) bytes[at] = to;
        for (const given of [bytes, bytes.subarray(0, cut)]) {
          expect(await outcome(() => read(given))).to.equal(await outcome(() => fromBinary(schema, given)));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  const nothing = new Uint8Array();
  const entry = (name: string, value: Uint8Array): Uint8Array => record(1, joined(text(1, name), record(2, value)));
  for (const [what, metadata] of [
    ["a member with a value of two kinds", entry("a", joined(text(3, "x"), text(3, "y")))],
    ["a member without a value", record(1, text(1, "a"))],
    ["a member without a name", record(1, record(2, text(3, "x")))],
    ["a member whose value comes first", record(1, joined(record(2, text(3, "x")), text(1, "a")))],
    ["a value of no kind", entry("a", nothing)],
    ["a value of an unknown kind", entry("a", text(9, "x"))],
    ["a text of another wire type", entry("a", Uint8Array.of(0x18, 0x01))],
    ["a text that is not UTF-8", entry("a", record(3, Uint8Array.of(0xff)))],
    ["an unknown record", joined(entry("a", text(3, "x")), text(7, "x"))],
    ["a length past the end", Uint8Array.of(0x0a, 0x7f)],
  ] as const) {
    it(`is left to the library with ${what}.`, async () => {
      const bytes = record(METADATA, metadata);
      expect(await split(bytes)).to.equal(undefined);
    });
  }

  it("is left to the library if the field comes twice, since the two are merged.", async () => {
    const bytes = joined(encoded({ metadata: { a: 1 } }), encoded({ metadata: { b: 2 } }));
    expect(await split(bytes)).to.equal(undefined);
    expect(await read(bytes)).to.have.deep.property("metadata", { a: 1, b: 2 });
  });

  it("is left to the library behind a record that the library reads by the type of its field.", async () => {
    // As a number this record has one byte, and what follows is an object; as the text that it names it holds all that follows.
    const object = record(METADATA, entry("a", text(3, "x")));
    const bytes = joined(Uint8Array.of(schema.field.agentId.number * 8, object.length), object);
    expect(await split(bytes)).to.equal(undefined);
  });

  it("is left to the library below too many levels.", async () => {
    let value: JsonObject = {};
    for (let depth = 0; depth < 200; depth++) value = { a: value };
    expect(await split(encoded({ metadata: value }))).to.equal(undefined);
  });

  it("is left to the library under two names at once, or as no object.", () => {
    for (const json of [{ metadata: [] }, { metadata: null }, [], null, "text"]) {
      expect(splitJson(schema, json)).to.deep.equal({ rest: json, structs: new Map() });
    }
    const input = { input_schema: { a: 1 }, inputSchema: {} };
    expect(splitJson(RegisterToolRequestSchema, input)).to.deep.equal({ rest: input, structs: new Map() });
  });
});
