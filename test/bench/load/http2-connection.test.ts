import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect } from "chai";
import { headerBlockOf, readableFields } from "./hpack.ts";
import { connectHttp2, type Http2Connection } from "./http2-connection.ts";
import {
  createFrameReader,
  createFrameWriter,
  Flag,
  FrameType,
  type FrameWriter,
  numbersOf,
  PREFACE,
  Setting,
  settingsOf,
} from "./http2-frames.ts";

interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** The other end of a connection, which says frame by frame what it is told to. */
interface Peer extends AsyncDisposable {
  readonly connection: Http2Connection;
  /** What it got since it was asked before, once the client has answered everything that was said. */
  heard(): Promise<Frame[]>;
  say(...frame: Parameters<FrameWriter["frame"]>): void;
}

async function startPeer(): Promise<Peer> {
  const frames: Frame[] = [];
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const connection = connectHttp2(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [socket] = (await once(server, "connection")) as [Socket];
  socket.on("error", () => undefined);
  const read = createFrameReader((type, flags, streamId, payload) => {
    frames.push({ type, flags, streamId, payload: Buffer.from(payload) });
    if (type === FrameType.PING) socket.emit("answered");
  });
  let skipped = 0;
  socket.on("data", (chunk) => {
    const from = Math.min(PREFACE.length - skipped, chunk.length);
    skipped += from;
    read(chunk.subarray(from));
  });
  const writer = createFrameWriter((bytes) => void socket.write(bytes));
  const say: Peer["say"] = (...frame) => {
    writer.frame(...frame);
    writer.flush();
  };
  say(FrameType.SETTINGS, 0, 0);
  const heard = async (): Promise<Frame[]> => {
    // Answered in turn, so that everything that the client had to say lies before it.
    say(FrameType.PING, 0, 0, Buffer.alloc(8));
    await once(socket, "answered");
    return frames.splice(0).slice(0, -1);
  };
  return {
    connection,
    heard,
    say,
    async [Symbol.asyncDispose]() {
      connection.close();
      socket.destroy();
      await once(server.close(), "close");
    },
  };
}

interface Heard {
  body: string;
  end: Buffer | undefined;
  fault: string | undefined;
}

function open(connection: Http2Connection): [streamId: number, heard: Heard] {
  const heard: Heard = { body: "", end: undefined, fault: undefined };
  const streamId = connection.open(headerBlockOf([[":method", "POST"]]), {
    onData(bytes) {
      heard.body += bytes.toString();
    },
    onEnd(lastBlock) {
      heard.end = Buffer.from(lastBlock);
    },
    onFault({ message }) {
      heard.fault = message;
    },
  });
  return [streamId, heard];
}

/** The bodies of DATA in what was heard. */
const bodies = (frames: readonly Frame[]): string[] =>
  frames.filter(({ type }) => type === FrameType.DATA).map(({ payload }) => payload.toString());

describe("a connection for load", () => {
  it("opens with the preface, its settings and a window for the connection.", async () => {
    await using peer = await startPeer();
    const [settings, window, ack] = await peer.heard();
    expect(settings).to.include({ type: FrameType.SETTINGS, flags: 0 });
    expect(window?.payload.readUInt32BE(0)).to.equal(2 ** 31 - 1 - 65_535);
    expect(ack).to.include({ type: FrameType.SETTINGS, flags: Flag.ACK });
  });

  it("sends on a stream what its window allows, and the rest when it grows.", async () => {
    await using peer = await startPeer();
    peer.say(FrameType.SETTINGS, 0, 0, settingsOf([[Setting.INITIAL_WINDOW_SIZE, 4]]));
    await peer.heard();
    const [id] = open(peer.connection);
    peer.connection.send(id, Buffer.from("0123456789"), true);
    expect(bodies(await peer.heard())).to.deep.equal(["0123"]);
    peer.say(FrameType.WINDOW_UPDATE, 0, id, numbersOf(3));
    expect(bodies(await peer.heard())).to.deep.equal(["456"]);
    // Four less for every stream: what the stream gets then only makes up for it.
    peer.say(FrameType.SETTINGS, 0, 0, settingsOf([[Setting.INITIAL_WINDOW_SIZE, 0]]));
    peer.say(FrameType.WINDOW_UPDATE, 0, id, numbersOf(4));
    expect(bodies(await peer.heard())).to.deep.equal([]);
    peer.say(FrameType.SETTINGS, 0, 0, settingsOf([[Setting.INITIAL_WINDOW_SIZE, 100]]));
    const frames = await peer.heard();
    expect(bodies(frames)).to.deep.equal(["789"]);
    expect(frames.at(-1)?.flags).to.equal(Flag.END_STREAM);
  });

  it("sends over all streams what the window of the connection allows.", async () => {
    await using peer = await startPeer();
    peer.say(FrameType.SETTINGS, 0, 0, settingsOf([[Setting.INITIAL_WINDOW_SIZE, 1_000_000]]));
    await peer.heard();
    for (const _ of [1, 2]) {
      const [id] = open(peer.connection);
      peer.connection.send(id, Buffer.alloc(40_000), true);
    }
    const lengths = (frames: readonly Frame[]): number[] => bodies(frames).map(({ length }) => length);
    expect(lengths(await peer.heard())).to.deep.equal([16_384, 16_384, 7_232, 16_384, 9_151]);
    peer.say(FrameType.WINDOW_UPDATE, 0, 0, numbersOf(14_464));
    expect(lengths(await peer.heard())).to.deep.equal([14_464]);
    peer.say(FrameType.WINDOW_UPDATE, 0, 0, numbersOf(1));
    expect(lengths(await peer.heard())).to.deep.equal([1]);
  });

  it("ends a stream without bytes though its window is used up.", async () => {
    await using peer = await startPeer();
    peer.say(FrameType.SETTINGS, 0, 0, settingsOf([[Setting.INITIAL_WINDOW_SIZE, 0]]));
    await peer.heard();
    const [id] = open(peer.connection);
    peer.connection.send(id, Buffer.alloc(0), true);
    expect((await peer.heard()).at(-1)).to.include({ type: FrameType.DATA, flags: Flag.END_STREAM, streamId: id });
  });

  it("takes padding, priority and header blocks of several frames.", async () => {
    await using peer = await startPeer();
    const [id, heard] = open(peer.connection);
    peer.connection.send(id, Buffer.alloc(0), true);
    await peer.heard();
    const block = headerBlockOf([["grpc-status", "7"]]);
    const padded = Buffer.concat([Buffer.from([2]), Buffer.from("body"), Buffer.alloc(2)]);
    peer.say(FrameType.HEADERS, Flag.PRIORITY, id, Buffer.concat([Buffer.alloc(5), block.subarray(0, 3)]));
    peer.say(FrameType.CONTINUATION, Flag.END_HEADERS, id, block.subarray(3));
    peer.say(FrameType.DATA, Flag.PADDED, id, padded);
    peer.say(FrameType.HEADERS, Flag.END_STREAM, id, block.subarray(0, 1));
    peer.say(FrameType.CONTINUATION, 0, id, block.subarray(1, 4));
    peer.say(FrameType.CONTINUATION, Flag.END_HEADERS, id, block.subarray(4));
    await peer.heard();
    expect(heard.body).to.equal("body");
    expect(readableFields(heard.end as Buffer)).to.deep.equal(new Map([["grpc-status", "7"]]));
  });

  it("takes its request back when the reply ends first.", async () => {
    await using peer = await startPeer();
    const [id, heard] = open(peer.connection);
    peer.connection.send(id, Buffer.alloc(100_000), true);
    await peer.heard();
    peer.say(FrameType.HEADERS, Flag.END_STREAM | Flag.END_HEADERS, id, headerBlockOf([["grpc-status", "8"]]));
    peer.say(FrameType.WINDOW_UPDATE, 0, 0, numbersOf(100_000));
    const frames = await peer.heard();
    expect(frames.map(({ type }) => type)).to.deep.equal([FrameType.RST_STREAM]);
    expect(heard.end).not.to.equal(undefined);
  });

  it("fails the stream that is reset, and no other.", async () => {
    await using peer = await startPeer();
    const [[id, reset], [, other]] = [open(peer.connection), open(peer.connection)];
    await peer.heard();
    peer.say(FrameType.RST_STREAM, 0, id, numbersOf(7));
    await peer.heard();
    expect(reset.fault).to.equal("the server reset a stream: REFUSED_STREAM");
    expect(other.fault).to.equal(undefined);
  });

  it("fails every stream, open and to come, when the peer goes away.", async () => {
    await using peer = await startPeer();
    const [id, before] = open(peer.connection);
    await peer.heard();
    const told = Buffer.concat([numbersOf(id, 11), Buffer.from("too many")]);
    peer.say(FrameType.GOAWAY, 0, 0, told);
    while (before.fault === undefined) await new Promise(setImmediate);
    const [, after] = open(peer.connection);
    const fault = "the server goes away: ENHANCE_YOUR_CALM, too many";
    expect([before.fault, after.fault]).to.deep.equal([fault, fault]);
  });
});
