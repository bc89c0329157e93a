import { connect } from "node:net";
import { expect } from "chai";
import { EscalationChange } from "../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { ControlPlaneError, ErrorReason } from "../../../src/errors.ts";
import { type Call, type Harness, readAll, startHarness } from "./harness.ts";

const PATH = "/v1/enforce/escalations:watch";
const GET = `GET ${PATH}`;
const SSE = { accept: "text/event-stream" };

const event = (cursor = "") => ({ change: EscalationChange.CREATED, cursor });
const text = (cursor = "") => `{"change":"created","escalation":null,"cursor":${JSON.stringify(cursor)},"at":null}`;

async function* two() {
  yield event("c1");
  yield event("c2");
}

async function* failsAfterOne() {
  yield event();
  throw new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, "gone");
}

// biome-ignore lint/correctness/useYield: the failure comes before the first message
async function* failsAtOnce() {
  throw new ControlPlaneError(ErrorReason.KEY_INVALID, "no such key");
}

const FAILURE =
  '{"ok":false,"error":{"code":404,"status":"NOT_FOUND","message":"gone","details":[{"reason":"AGENT_NOT_FOUND","domain":"agentcontrol.v1","metadata":{}}]}}';

/** A stream of some events that stays open until its caller leaves, and tells how many it was asked for and when it ended. */
function lasting(count: number, note = "") {
  const [asked, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const seen = { sent: 0, asked: asked.promise, ended: ended.promise };
  async function* serve({ context }: Call) {
    const { signal } = context;
    asked.resolve();
    try {
      for (; seen.sent < count && !signal.aborted; seen.sent++) yield { ...event(), escalation: { note } };
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    } finally {
      ended.resolve();
    }
  }
  return { seen, serve };
}

describe("server streams over REST", () => {
  let harness: Harness;
  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());
  beforeEach(() => {
    harness.stream = two;
    harness.calls.length = 0;
  });

  it("come as one JSON message a line by default.", async () => {
    const answer = await harness.ask({ ask: GET });
    expect(answer.status).to.equal(200);
    expect(answer.headers).to.include({
      "content-type": "application/x-ndjson",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    expect(answer.text).to.equal(`${text("c1")}\n${text("c2")}\n`);
  });

  it("come as events, with the cursor as id, where the client accepts them.", async () => {
    const answer = await harness.ask({ ask: GET, headers: { accept: "text/event-stream, application/json" } });
    expect(answer.headers["content-type"]).to.equal("text/event-stream");
    expect(answer.text).to.equal(`: open\n\nid: c1\ndata: ${text("c1")}\n\nid: c2\ndata: ${text("c2")}\n\n`);
  });

  it("leave out the id of an event that has no usable cursor.", async () => {
    harness.stream = async function* () {
      yield event();
      yield event("x\ny");
    };
    const answer = await harness.ask({ ask: GET, headers: SSE });
    expect(answer.text).to.equal(`: open\n\ndata: ${text()}\n\ndata: ${text("x\ny")}\n\n`);
  });

  it("leave out the id of events that have no cursor at all.", async () => {
    harness.stream = async function* () {
      yield {};
    };
    const answer = await harness.ask({ ask: "GET /v1/enforce/agents/a1/watch", headers: SSE });
    expect(answer.text).to.match(/^: open\n\ndata: \{"change":null,.*\}\n\n$/);
  });

  it("open at once, before the first message.", async () => {
    const { seen, serve } = lasting(0);
    harness.stream = serve;
    const response = await harness.open(PATH, SSE);
    for await (const chunk of response) {
      expect(String(chunk)).to.equal(": open\n\n");
      break;
    }
    await seen.ended;
  });

  it("end with an error event when they fail after the start.", async () => {
    harness.stream = failsAfterOne;
    const answer = await harness.ask({ ask: GET, headers: SSE });
    expect(answer.status).to.equal(200);
    expect(answer.text).to.equal(`: open\n\ndata: ${text()}\n\nevent: error\ndata: ${FAILURE}\n\n`);
  });

  it("end with an error line when they fail after the start.", async () => {
    harness.stream = failsAfterOne;
    expect((await harness.ask({ ask: GET })).text).to.equal(`${text()}\n${FAILURE}\n`);
  });

  it("answer with an HTTP status when their first step fails.", async () => {
    harness.stream = failsAtOnce;
    const answer = await harness.ask({ ask: GET, headers: SSE });
    expect([answer.status, answer.reason]).to.deep.equal([401, "KEY_INVALID"]);
  });

  it("answer with an HTTP status when they are refused before they begin.", async () => {
    const answer = await harness.ask({ ask: `${GET}?cursor=${"x".repeat(65)}`, headers: SSE });
    expect([answer.status, answer.reason]).to.deep.equal([400, "INVALID_FIELD"]);
  });

  it("start where the last event id says, unless the request names a cursor.", async () => {
    const headers = { ...SSE, "last-event-id": "c7" };
    await harness.ask({ ask: GET, headers });
    await harness.ask({ ask: `${GET}?cursor=c9`, headers });
    expect(harness.calls.map(({ request }) => request.cursor)).to.deep.equal(["c7", "c9"]);
  });

  it("answer HEAD with the headers alone, without starting.", async () => {
    const answer = await harness.ask({ ask: `HEAD ${PATH}`, headers: SSE });
    expect([answer.status, answer.headers["content-type"], answer.text]).to.deep.equal([200, "text/event-stream", ""]);
    expect(harness.calls).to.deep.equal([]);
  });

  it("end when the client leaves before the first message.", async () => {
    const { seen, serve } = lasting(0);
    harness.stream = serve;
    const socket = connect(harness.port, "127.0.0.1");
    socket.write(`GET ${PATH} HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\n\r\n`);
    await seen.asked;
    socket.destroy();
    await seen.ended;
  });

  it("end when the client leaves between two messages.", async () => {
    const { seen, serve } = lasting(1);
    harness.stream = serve;
    const response = await harness.open(PATH);
    for await (const _chunk of response) break;
    await seen.ended;
  });

  it("hold back while the client does not read, and end when it leaves then.", async () => {
    const count = 1000;
    const { seen, serve } = lasting(count, "x".repeat(100_000));
    harness.stream = serve;
    const response = await harness.open(PATH);
    let before = -1;
    while (before !== seen.sent) {
      before = seen.sent;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(seen.sent).to.be.lessThan(count);
    response.destroy();
    await seen.ended;
  });

  it("deliver everything to a client that reads slowly.", async () => {
    const count = 200;
    harness.stream = async function* () {
      for (let index = 0; index < count; index++) yield { ...event(), escalation: { note: "y".repeat(50_000) } };
    };
    const response = await harness.open(PATH);
    response.pause();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await readAll(response)).split("\n")).to.have.length(count + 1);
  });
});
