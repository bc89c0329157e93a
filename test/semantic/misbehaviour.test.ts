import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { TEST_TLS } from "../server/tls-pair.ts";
import { CANARIES, causeOf, watchedGuard } from "./harness.ts";
import {
  answers,
  type Behaviour,
  completion,
  judges,
  type ModelServer,
  resets,
  startModelServer,
  staysSilent,
  verdict,
} from "./model-server.ts";

/** What a server does, and the cause and the detail that come of it. */
interface Misbehaviour {
  readonly does: string;
  readonly behaviour: Behaviour;
  readonly want: readonly [cause: string, detail: string];
  /** Requests that the server gets; 1 unless set. */
  readonly requests?: number;
  /** Set where an answer never ends by itself. */
  readonly timeoutMs?: number;
}

const saying = (content: unknown, ...rest: object[]): Behaviour => answers(completion(content, ...rest));
const withoutReason = verdict({ reason: undefined });
const JSON_TYPE = { "content-type": "application/json" };
const CANARY = "canary-reason";

/** Writes as long as somebody reads. */
const endless =
  (status: number): Behaviour =>
  (response) => {
    response.writeHead(status, JSON_TYPE);
    const more = (): void => {
      while (!response.destroyed && response.write(" ".repeat(16_384)));
      if (!response.destroyed) response.once("drain", more);
    };
    more();
  };

const STATUSES: readonly Misbehaviour[] = [
  ...[400, 401, 403, 404, 413, 422].map((status) => ({ status, cause: "rejected" })),
  ...[201, 204, 301, 302, 307, 308].map((status) => ({ status, cause: "rejected" })),
  ...[408, 500, 502, 503, 529].map((status) => ({ status, cause: "server_error" })),
  { status: 429, cause: "rate_limited" },
].map(({ status, cause }) => ({
  does: `answers with status ${status}`,
  behaviour: answers(status === 204 ? "" : completion(verdict()), status, { location: "/v1/elsewhere" }),
  want: [cause, `status ${status}`],
}));

const FORMS: readonly Misbehaviour[] = [
  ["a page", "<html>", "the answer is not a JSON object"],
  ["nothing", "", "the answer is not a JSON object"],
  ["half of an answer", JSON.stringify(completion(verdict())).slice(0, -9), "the answer is not a JSON object"],
  ["a JSON list", [completion(verdict())], "the answer is not a JSON object"],
  ["an error with status 200", { error: { message: CANARY } }, "the answer does not have exactly one choice"],
  ["no choices", completion(verdict(), {}, {}, { choices: [] }), "the answer does not have exactly one choice"],
  ["two choices", completion(verdict(), {}, {}, { choices: [{}, {}] }), "the answer does not have exactly one choice"],
  ["choices that are no list", { choices: { 0: {} } }, "the answer does not have exactly one choice"],
  ["a choice without a message", { choices: [{ text: verdict() }] }, "the choice has no message"],
  ["an answer that was cut off", completion(verdict(), {}, { finish_reason: "length" }), "the answer was cut off"],
].map(([does, body, detail]) => ({
  does: `answers with ${does}`,
  behaviour: answers(body),
  want: ["invalid_answer", detail as string],
}));

const CONTENTS: readonly Misbehaviour[] = [
  ["a verdict in words", `No violation. ${CANARY}`, "the text is not a JSON object"],
  ["a verdict in a code block", `\`\`\`json\n${verdict()}\n\`\`\``, "the text is not a JSON object"],
  ["two verdicts", `${verdict()}${verdict()}`, "the text is not a JSON object"],
  ["a list", `[${verdict()}]`, "the text is not a JSON object"],
  ["null", "null", "the text is not a JSON object"],
  ["NaN for a confidence", verdict().replace("0.9", "NaN"), "the text is not a JSON object"],
  ["a member too few", withoutReason, "the verdict has other members"],
  ["a member too many", verdict({ note: CANARY }), "the verdict has other members"],
  ["`__proto__`", verdict().replace("{", '{"__proto__":{},'), "the verdict has other members"],
  ["a confidence above 1", verdict({ confidence: 1.01 }), "`confidence` is not a number from 0 to 1"],
  ["a confidence below 0", verdict({ confidence: -0.01 }), "`confidence` is not a number from 0 to 1"],
  ["a confidence without end", verdict().replace("0.9", "1e999"), "`confidence` is not a number from 0 to 1"],
  ["a confidence as text", verdict({ confidence: "0.9" }), "`confidence` is not a number from 0 to 1"],
  ["no confidence", verdict({ confidence: null }), "`confidence` is not a number from 0 to 1"],
  ["`violates` as text", verdict({ violates: "false" }), "`violates` is neither true nor false"],
  ["`violates` as number", verdict({ violates: 0 }), "`violates` is neither true nor false"],
  ["a member twice", verdict().replace("{", '{"violates":true,'), "the verdict names a member twice"],
  [
    "a member twice, spelt otherwise",
    verdict().replace("{", '{"\\u0076iolates":true,'),
    "the verdict names a member twice",
  ],
  ["a reason that is no text", verdict({ reason: [CANARY] }), "`reason` is not a string"],
].map(([does, content, detail]) => ({
  does: `says ${does}`,
  behaviour: saying(content),
  want: ["invalid_answer", detail as string],
}));

const MESSAGES: readonly Misbehaviour[] = [
  {
    does: "calls a tool instead",
    behaviour: saying(null, { tool_calls: [{ id: "1", type: "function", function: { name: CANARY } }] }),
    want: ["invalid_answer", "the model called a tool"],
  },
  {
    does: "calls a tool beside its verdict",
    behaviour: saying(verdict(), { tool_calls: [{}] }),
    want: ["invalid_answer", "the model called a tool"],
  },
  {
    does: "calls a function as it once was",
    behaviour: saying(null, { function_call: { name: CANARY } }),
    want: ["invalid_answer", "the model called a tool"],
  },
  {
    does: "says nothing",
    behaviour: saying(null),
    want: ["invalid_answer", "the message has no text"],
  },
  {
    does: "answers in parts",
    behaviour: saying([{ type: "text", text: verdict() }]),
    want: ["invalid_answer", "the message has no text"],
  },
  {
    does: "passes a message off as read",
    behaviour: saying(null, { kind: "verdict", violates: false, confidence: 1, reason: "" }),
    want: ["invalid_answer", "the message has no text"],
  },
  { does: "refuses", behaviour: saying(null, { refusal: CANARY }), want: ["refused", "the model declined"] },
  {
    does: "is filtered",
    behaviour: saying(verdict(), {}, { finish_reason: "content_filter" }),
    want: ["refused", "the model declined"],
  },
];

const BODIES: readonly Misbehaviour[] = [
  {
    does: "calls its answer a text",
    behaviour: answers(completion(verdict()), 200, { "content-type": "text/plain" }),
    want: ["invalid_answer", "the content type is not application/json"],
  },
  {
    does: "streams events",
    behaviour: answers("data: {}\n\n", 200, { "content-type": "text/event-stream" }),
    want: ["invalid_answer", "the content type is not application/json"],
  },
  { does: "answers without an end", behaviour: endless(200), want: ["invalid_answer", "more than 65536 bytes"] },
  { does: "fails without an end", behaviour: endless(500), want: ["server_error", "status 500"] },
  {
    does: "packs a large answer into a small one",
    behaviour: (response) => {
      response.writeHead(200, { ...JSON_TYPE, "content-encoding": "gzip" });
      response.end(gzipSync(Buffer.alloc(50_000_000, " ")));
    },
    want: ["invalid_answer", "more than 65536 bytes"],
  },
  {
    does: "cuts its chunks off half-way",
    behaviour: (response) => {
      response.writeHead(200, JSON_TYPE);
      response.write(JSON.stringify(completion(verdict())).slice(0, 50), () => response.socket?.destroy());
    },
    want: ["unreachable", "UND_ERR_SOCKET"],
  },
  {
    does: "announces more than it sends",
    behaviour: (response) => {
      response.writeHead(200, { ...JSON_TYPE, "content-length": "9999" });
      response.write(JSON.stringify(completion(verdict())), () => response.socket?.destroy());
    },
    want: ["unreachable", "UND_ERR_SOCKET"],
  },
  {
    does: "speaks another protocol",
    behaviour: (response) => void response.socket?.end("SSH-2.0-OpenSSH_9.6\r\n"),
    want: ["unreachable", "HTTPParserError"],
  },
  { does: "resets the connection", behaviour: resets, want: ["unreachable", "ECONNRESET"], requests: 2 },
  {
    does: "closes the connection",
    behaviour: (response) => void response.socket?.end(),
    want: ["unreachable", "UND_ERR_SOCKET"],
    requests: 2,
  },
];

const SLOWNESS: readonly Misbehaviour[] = [
  { does: "never answers", behaviour: staysSilent },
  {
    does: "begins an answer and falls silent",
    behaviour: (response: Parameters<Behaviour>[0]) => {
      response.writeHead(200, JSON_TYPE).write("{");
    },
  },
  {
    does: "answers byte by byte",
    behaviour: async (response: Parameters<Behaviour>[0]) => {
      response.writeHead(200, JSON_TYPE);
      while (!response.destroyed) {
        response.write(" ");
        await delay(5);
      }
    },
  },
].map((each) => ({ ...each, want: ["timed_out", "no whole answer in time"], timeoutMs: 500 }));

const MISBEHAVIOURS = [...STATUSES, ...FORMS, ...CONTENTS, ...MESSAGES, ...BODIES, ...SLOWNESS];

describe("a guard whose model", () => {
  let server: ModelServer;
  beforeEach(async () => {
    server = await startModelServer();
  });
  afterEach(() => server.close());

  for (const { does, behaviour, want, requests = 1, timeoutMs } of MISBEHAVIOURS) {
    it(`${does} says \`${want[0]}\`, tells nothing of the question, and lets go of the connection.`, async () => {
      server.behaviour = behaviour;
      const { judge, logged, metrics } = watchedGuard(server.url);
      const { latencyMs, ...answer } = await judge({ timeoutMs });
      expect(answer).to.deep.equal({ kind: "unavailable", cause: want[0] });
      expect(latencyMs).to.be.a("number").and.satisfy(Number.isInteger);
      expect(server.asked.map(({ path }) => path)).to.deep.equal(Array(requests).fill("/v1/chat/completions"));
      expect(logged.map((line) => JSON.parse(line))).to.deep.equal([
        { cause: want[0], detail: want[1], latency_ms: latencyMs, message: "the guard has no verdict" },
      ]);
      for (const canary of CANARIES) expect(logged.join() + (await metrics())).to.not.include(canary);
      await server.idle();
      server.behaviour = judges();
      expect(causeOf(await judge())).to.equal("verdict");
    });
  }

  it("is not there says `unreachable`.", async () => {
    await server.close();
    const { judge, logged } = watchedGuard(server.url);
    expect(causeOf(await judge())).to.equal("unreachable");
    expect(logged.map((line) => JSON.parse(line).detail)).to.deep.equal(["ECONNREFUSED"]);
    server = await startModelServer();
  });

  it("has no address says `unreachable`.", async () => {
    const { judge, logged } = watchedGuard("http://nowhere.invalid/v1");
    expect(causeOf(await judge())).to.equal("unreachable");
    expect(JSON.parse(logged[0] ?? "").detail).to.be.oneOf(["ENOTFOUND", "EAI_AGAIN"]);
  });

  it("shows a certificate that nobody signed is not told the key.", async () => {
    const secure = createSecureServer(TEST_TLS, () => expect.fail("was asked"));
    await new Promise<void>((resolve) => secure.listen(0, "127.0.0.1", resolve));
    const { judge, logged } = watchedGuard(`https://localhost:${(secure.address() as AddressInfo).port}/v1`);
    expect(causeOf(await judge())).to.equal("unreachable");
    expect(logged.map((line) => JSON.parse(line).detail)).to.deep.equal(["DEPTH_ZERO_SELF_SIGNED_CERT"]);
    secure.close();
  });

  it("closes a connection before an answer began is asked once more.", async () => {
    server.behaviour = (response, index, asked) => (index === 0 ? resets : judges())(response, index, asked);
    expect(causeOf(await watchedGuard(server.url).judge())).to.equal("verdict");
    expect(server.asked).to.have.length(2);
    expect(server.asked[0]?.body).to.equal(server.asked[1]?.body);
  });

  for (const [what, given, want] of [
    ["one line", "two\n\r\u2028lines\tand\u0000 a bell\u0007", "two lines and a bell"],
    ["one direction", "safe \u202etxt.exe\u2066", "safe txt.exe"],
    ["whole characters", "half \ud800", "half \ufffd"],
    ["500 characters", "😀".repeat(600), "😀".repeat(500)],
    ["nothing that is not there", "", ""],
  ]) {
    it(`gives a reason is believed to have ${what}.`, async () => {
      server.behaviour = judges({ reason: given });
      expect(await watchedGuard(server.url).judge()).to.include({ kind: "verdict", reason: want });
    });
  }

  it("calls itself something else than a name goes by the configured one.", async () => {
    for (const model of ["", "two words", "x".repeat(129), 7, null, undefined]) {
      server.behaviour = answers(completion(verdict(), {}, {}, { model }));
      expect(await watchedGuard(server.url).judge()).to.include({ kind: "verdict", model: "model" });
    }
  });
});
