import { connect } from "node:net";
import { create, type Message } from "@bufbuild/protobuf";
import { expect } from "chai";
import { ControlPlaneError, ErrorReason } from "../../../src/errors.ts";
import { library } from "./descriptors.ts";
import { echo, type Harness, open, readAll, startHarness } from "./harness.ts";

const PATH = "/api/watch/books";
const SSE = { accept: "text/event-stream" };
const Event = library().message("BookEvent");

function event(title: string, cursor = ""): Message {
  return create(Event, { title, cursor });
}

function text(title: string, cursor = ""): string {
  return `{"cursor":"${cursor}","title":"${title}"}`;
}

async function* two(): AsyncGenerator<Message> {
  yield event("a", "c1");
  yield event("b\\n", "c2");
}

async function* failsAfterOne(): AsyncGenerator<Message> {
  yield event("a");
  throw new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, "gone");
}

// biome-ignore lint/correctness/useYield: the failure comes before the first message
async function* failsAtOnce(): AsyncGenerator<Message> {
  throw new ControlPlaneError(ErrorReason.KEY_INVALID, "no such key");
}

const FAILURE = '{"ok":false,"error":{"reason":"AGENT_NOT_FOUND","message":"gone","metadata":{}}}';

/** A stream that stays open, and tells when it is asked for a message, aborted and returned. */
function endless(messages: readonly Message[]) {
  const returned = Promise.withResolvers<void>();
  let asked = 0;
  return {
    returned: returned.promise,
    asked: () => asked,
    start: (): AsyncIterable<Message> => ({
      [Symbol.asyncIterator]: () => ({
        next: () => {
          const value = messages[asked++];
          return value === undefined ? new Promise<never>(() => {}) : Promise.resolve({ value, done: false });
        },
        return: async () => {
          returned.resolve();
          return { value: undefined, done: true };
        },
      }),
    }),
  };
}

describe("server streams over REST", () => {
  let harness: Harness;
  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());
  beforeEach(() => {
    harness.calls.length = 0;
    harness.infos.length = 0;
  });

  function serve(start: () => AsyncIterable<Message> | Promise<AsyncIterable<Message>>): void {
    harness.dispatcher = { ...echo, serverStream: start };
  }

  it("come as one JSON message a line by default.", async () => {
    serve(two);
    const answer = await harness.ask("GET", PATH);
    expect(answer.status).to.equal(200);
    expect(answer.headers).to.include({
      "content-type": "application/x-ndjson",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    expect(answer.text).to.equal(`${text("a", "c1")}\n${text("b\\\\n", "c2")}\n`);
  });

  it("come as events, with the cursor as id, where the client accepts them.", async () => {
    serve(two);
    const answer = await harness.ask("GET", PATH, { headers: { accept: "text/event-stream, application/json" } });
    expect(answer.headers["content-type"]).to.equal("text/event-stream");
    const events = [`id: c1\ndata: ${text("a", "c1")}`, `id: c2\ndata: ${text("b\\\\n", "c2")}`];
    expect(answer.text).to.equal(`: open\n\n${events.join("\n\n")}\n\n`);
  });

  it("leave out the id of an event that has no usable cursor.", async () => {
    serve(async function* () {
      yield event("a");
      yield event("b", "x\ny");
    });
    const answer = await harness.ask("GET", PATH, { headers: SSE });
    expect(answer.text).to.equal(`: open\n\ndata: ${text("a")}\n\ndata: ${text("b", "x\\ny")}\n\n`);
  });

  it("open at once, before the first message.", async () => {
    const source = endless([]);
    serve(source.start);
    const response = await open(harness.port, "GET", PATH, SSE);
    for await (const chunk of response) {
      expect(String(chunk)).to.equal(": open\n\n");
      break;
    }
    await source.returned;
  });

  it("end with an error event when they fail after the start.", async () => {
    serve(failsAfterOne);
    const answer = await harness.ask("GET", PATH, { headers: SSE });
    expect(answer.status).to.equal(200);
    expect(answer.text).to.equal(`: open\n\ndata: ${text("a")}\n\nevent: error\ndata: ${FAILURE}\n\n`);
    expect(harness.infos[0]?.error).to.be.instanceOf(ControlPlaneError);
  });

  it("end with an error line when they fail after the start.", async () => {
    serve(failsAfterOne);
    expect((await harness.ask("GET", PATH)).text).to.equal(`${text("a")}\n${FAILURE}\n`);
  });

  for (const [description, start] of [
    ["their first step fails", failsAtOnce],
    ["they are refused before they exist", () => Promise.reject(new ControlPlaneError(ErrorReason.KEY_INVALID, "no"))],
  ] as const) {
    it(`answer with an HTTP status when ${description}.`, async () => {
      serve(start);
      const answer = await harness.ask("GET", PATH, { headers: SSE });
      expect([answer.status, answer.reason]).to.deep.equal([401, "KEY_INVALID"]);
    });
  }

  it("start where the last event id says, unless the request names a cursor.", async () => {
    serve(two);
    const headers = { ...SSE, "last-event-id": "c7" };
    await harness.ask("GET", PATH, { headers });
    expect(harness.lastRequest().cursor).to.equal("c7");
    await harness.ask("GET", `${PATH}?cursor=c9`, { headers });
    expect(harness.lastRequest().cursor).to.equal("c9");
  });

  it("answer HEAD with the headers alone, without starting.", async () => {
    serve(two);
    const answer = await harness.ask("HEAD", PATH, { headers: SSE });
    expect([answer.status, answer.headers["content-type"], answer.text]).to.deep.equal([200, "text/event-stream", ""]);
    expect(harness.calls).to.deep.equal([]);
  });

  it("abort the signal and return the iterator when the client leaves.", async () => {
    const source = endless([event("a")]);
    serve(source.start);
    const response = await open(harness.port, "GET", PATH);
    for await (const chunk of response) {
      expect(String(chunk)).to.equal(`${text("a")}\n`);
      break;
    }
    await source.returned;
    expect(harness.calls[0]?.signal.aborted).to.equal(true);
  });

  it("return the iterator when the client leaves before the response starts.", async () => {
    const source = endless([]);
    serve(source.start);
    const socket = connect(harness.port, "127.0.0.1");
    socket.write(`GET ${PATH} HTTP/1.1\r\nhost: x\r\n\r\n`);
    while (source.asked() === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    socket.destroy();
    await source.returned;
  });

  it("hold back while the client does not read, and return the iterator when it leaves then.", async () => {
    const big = event("x".repeat(100_000));
    const source = endless(Array.from({ length: 1000 }, () => big));
    serve(source.start);
    const response = await open(harness.port, "GET", PATH);
    let before = -1;
    while (before !== source.asked()) {
      before = source.asked();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(source.asked()).to.be.lessThan(1000);
    response.destroy();
    await source.returned;
  });

  it("deliver everything to a client that reads slowly.", async () => {
    const count = 200;
    serve(async function* () {
      for (let index = 0; index < count; index++) yield event("y".repeat(50_000));
    });
    const response = await open(harness.port, "GET", PATH);
    response.pause();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await readAll(response)).split("\n")).to.have.length(count + 1);
  });
});
