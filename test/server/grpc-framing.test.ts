import { expect } from "chai";
import fc from "fast-check";
import { type Frame, FrameReader, framed } from "../../src/server/grpc/framing.ts";

const MAX_BYTES = 1_000_000;

function reader(): FrameReader {
  return new FrameReader((bytes) => {
    if (bytes > MAX_BYTES) throw new RangeError(`${bytes} bytes`);
  });
}

/** Reads a body in pieces of the given sizes, in turn. */
function readIn(body: Buffer, sizes: readonly number[], from = reader()): readonly Frame[] {
  const frames: Frame[] = [];
  for (let at = 0, turn = 0; at < body.length; turn++) {
    const size = sizes[turn % sizes.length] as number;
    frames.push(...from.read(body.subarray(at, at + size)));
    at += size;
  }
  return frames;
}

const head = (flag: number, length: number): Buffer => {
  const bytes = Buffer.alloc(5);
  bytes.writeUInt8(flag);
  bytes.writeUInt32BE(length, 1);
  return bytes;
};

describe("the frames of gRPC", () => {
  it("give the same messages however the body is cut.", () => {
    const messages = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 });
    const sizes = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(messages, sizes, (given, cuts) => {
        const from = reader();
        const frames = readIn(Buffer.concat(given.map(framed)), cuts, from);
        expect(frames.map(({ bytes }) => [...bytes])).to.deep.equal(given.map((bytes) => [...bytes]));
        expect(frames.every(({ isCompressed }) => !isCompressed)).to.equal(true);
        expect(from.isWithinMessage).to.equal(false);
      }),
    );
  });

  it("tell an unfinished body.", () => {
    for (const cut of [1, 4, 5, 7]) {
      const from = reader();
      expect([...from.read(framed(Buffer.from("abc")).subarray(0, cut))]).to.deep.equal([]);
      expect(from.isWithinMessage).to.equal(true);
    }
  });

  it("refuse a message that is too long at its head, and a flag that is unknown.", () => {
    expect(() => readIn(head(0, MAX_BYTES + 1), [1])).to.throw(RangeError);
    expect(() => readIn(head(0, 0xff_ff_ff_ff), [5])).to.throw(RangeError);
    expect(() => readIn(head(2, 1), [5])).to.throw("begins with the byte 2");
    const read: string[] = [];
    const body = Buffer.concat([framed(Buffer.from("first")), head(0, MAX_BYTES + 1)]);
    expect(() => {
      for (const { bytes } of reader().read(body)) read.push(bytes.toString());
    }).to.throw(RangeError);
    expect(read).to.deep.equal(["first"]);
  });

  it("keep no more than twice what has arrived, whatever length is announced and however small the pieces are.", () => {
    const before = process.memoryUsage();
    const readers = Array.from({ length: 1_000 }, () => {
      const from = reader();
      readIn(Buffer.concat([head(0, MAX_BYTES), Buffer.alloc(1_000)]), [1], from);
      return from;
    });
    const { arrayBuffers } = process.memoryUsage();
    expect(arrayBuffers - before.arrayBuffers).to.be.below(10_000_000);
    expect(readers.every(({ isWithinMessage }) => isWithinMessage)).to.equal(true);
  });
});
