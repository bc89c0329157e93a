import { once } from "node:events";
import { createServer, connect as open, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import {
  answerFrom,
  appendedFrom,
  createLineWriter,
  lineFromAppended,
  lineFromError,
  lineFromQuestion,
  lineFromSealed,
  questionFrom,
  readLines,
} from "../../src/cluster/peer-lines.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import type { Action, SealedDecision } from "../../src/state/types.ts";
import { canonicalJson, type JsonObject } from "../../src/tree/canonical.ts";
import { createSocketDir, type SocketDir } from "./harness.ts";

const PLAIN: Action = {
  decisionId: "dec_1",
  isRetryable: false,
  agentId: "agt_1",
  actionType: "Note.Write ",
  normalisedType: "note.write",
  actionContent: "",
  metadata: undefined,
  metadataText: "",
  tool: undefined,
  sessionId: undefined,
  onBehalfOf: undefined,
  grantId: undefined,
  intentContractId: undefined,
  escalationId: undefined,
  keyId: "key_1",
};

const OPTIONAL: Partial<Action> = {
  tool: "hammer",
  sessionId: "ses_1",
  onBehalfOf: "agt_2",
  grantId: "grt_1",
  intentContractId: "itc_1",
  escalationId: "esc_1",
};

const TEXTS = {
  quotes: `"quoted" and 'quoted' and \\ and \\"`,
  tabs: "\ta\t\tb\t",
  "line feeds": "\none\r\ntwo\n\n",
  "line separators": "a\u2028b\u2029c\u0085d",
  "a null character": "a\u0000b",
  emoji: "👩‍👩‍👧 🇨🇭 é ß 漢",
  "lone surrogates": "\ud800 a \udc00\ud83d",
  nothing: "",
};

const METADATA: Readonly<Record<string, JsonObject>> = {
  empty: {},
  nested: { a: { b: [{ c: null }, [], [[true, false]]], d: {} }, e: [1.5, -0.25, 1e21, 1e-7] },
  "a prototype": JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1, "a": {"__proto__": 2}}'),
  "texts of all kinds": { ...TEXTS, "lone surrogates": "", "a\tb\nc": "\t\n" },
};

const withMetadata = (metadata: JsonObject): Action => ({
  ...PLAIN,
  metadata: metadata as Action["metadata"],
  metadataText: canonicalJson(metadata),
});

const closed = (socket: Socket): Promise<unknown> => new Promise((resolve) => socket.once("close", resolve));

/** The action at the other end of a connection. */
const crossed = (action: Action): Action =>
  questionFrom(Buffer.from(lineFromQuestion({ id: 7, workspaceId: "w", action }))).action;

const SEALED: SealedDecision = {
  ...{ decisionId: "dec_1", agentId: "agt_1", actionType: "pay" },
  ...{ seq: 12, atMs: 1_700_000_000_123, decision: "escalate", path: "policy" },
  ...{ trustBeforeTenths: 502, trustAfterTenths: 482, escalationId: "esc_1", policyName: 'a "policy"\n\u2028' },
  reasons: [
    { code: "a", message: "m\tn\n" },
    { code: "b", message: "", mandateId: "man_1", mandateName: "👍", rule: "rules[0]", argument: "x", wouldPass: "y" },
  ],
};

function sealedCrossed(sealed: SealedDecision): unknown {
  const { decisionId, agentId, actionType } = sealed;
  const answer = answerFrom(Buffer.from(lineFromSealed(3, sealed)));
  return "sealed" in answer ? { decisionId, agentId, actionType, ...answer.sealed } : answer.error;
}

function errorCrossed(error: ControlPlaneError): ControlPlaneError {
  const answer = answerFrom(Buffer.from(lineFromError(3, error)));
  if ("sealed" in answer) throw new Error("an error became a decision");
  return answer.error;
}

describe("the line of a question", () => {
  it("holds its id and workspace.", () => {
    const question = { id: 4_000_000, workspaceId: 'w "x"\n', action: PLAIN };
    expect(questionFrom(Buffer.from(lineFromQuestion(question)))).to.deep.equal(question);
  });

  it("holds every optional field, present or absent.", () => {
    for (const isRetryable of [true, false]) {
      const action = { ...PLAIN, isRetryable };
      expect(crossed(action)).to.deep.equal(action);
      expect(crossed({ ...action, ...OPTIONAL })).to.deep.equal({ ...action, ...OPTIONAL });
      for (const [name, value] of Object.entries(OPTIONAL)) {
        expect(crossed({ ...action, [name]: value })).to.deep.equal({ ...action, [name]: value });
        expect(crossed({ ...action, ...OPTIONAL, [name]: undefined })[name as keyof Action]).to.equal(undefined);
      }
    }
  });

  for (const [kind, text] of Object.entries(TEXTS)) {
    it(`holds a text with ${kind}.`, () => {
      const action = { ...PLAIN, ...OPTIONAL, actionType: text, actionContent: text, tool: text };
      expect(lineFromQuestion({ id: 1, workspaceId: "w", action })).to.not.contain("\n");
      expect(crossed(action)).to.deep.equal(action);
    });
  }

  it("holds any text.", () => {
    const text = fc.array(fc.nat(0xffff)).map((units) => String.fromCharCode(...units));
    fc.assert(
      fc.property(text, text, (actionContent, actionType) => {
        expect(crossed({ ...PLAIN, actionContent, actionType })).to.deep.equal({ ...PLAIN, actionContent, actionType });
      }),
    );
  });

  for (const [kind, metadata] of Object.entries(METADATA)) {
    it(`holds metadata, ${kind}, and its text as it is.`, () => {
      const action = withMetadata(metadata);
      const there = crossed(action);
      expect(there).to.deep.equal(action);
      expect(canonicalJson(there.metadata as JsonObject)).to.equal(action.metadataText);
      expect(Object.getPrototypeOf(there.metadata)).to.equal(Object.prototype);
    });
  }

  it("holds any metadata.", () => {
    const word = fc.string({ unit: "grapheme" });
    fc.assert(
      fc.property(fc.dictionary(word, fc.jsonValue()), (metadata) => {
        const action = withMetadata(JSON.parse(canonicalJson(metadata as JsonObject)));
        expect(crossed(action)).to.deep.equal(action);
      }),
    );
  });
});

describe("the line of an answer", () => {
  it("holds a decision with all that it may say.", () => {
    expect(sealedCrossed(SEALED)).to.deep.equal(SEALED);
  });

  it("holds a decision with as little as it may say.", () => {
    const sealed = { ...SEALED, seq: 0, escalationId: undefined, policyName: undefined, reasons: [] };
    expect(sealedCrossed(sealed)).to.deep.equal(sealed);
  });

  it("holds the reason, the message and the metadata of an error.", () => {
    const metadata = { agent_id: 'a"\n', empty: "" };
    const error = errorCrossed(new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, "no agent `a\n\u2028`", metadata));
    expect(error).to.be.instanceOf(ControlPlaneError);
    expect(error).to.deep.include({ reason: ErrorReason.AGENT_NOT_FOUND, message: "no agent `a\n\u2028`", metadata });
    expect(error).to.not.have.property("cause");
  });

  it("holds the cause of an error as text.", () => {
    const because = (cause: unknown): unknown =>
      errorCrossed(new ControlPlaneError(ErrorReason.INTERNAL, "it failed", {}, { cause })).cause;
    const cause = new RangeError("deep below");
    expect(because(cause)).to.equal(cause.stack);
    expect(because("a text")).to.equal("a text");
    expect(because(null)).to.equal("null");
  });
});

describe("the line of what was appended", () => {
  it("holds the batch, and is told from an answer.", () => {
    const columns = {
      ids: ["dec_1", "dec_2"],
      agents: ["agt_1", "agt_1"],
      types: ["pay", '\n"\\\t\u2028'],
      decisions: ["1", "2"],
      used: ["", "esc_1"],
    };
    const appended = { workspaceId: 'w "x"', batch: { seq: 7, atMs: 1_700_000_000_123, columns, frontier: "AAAA" } };
    const line = lineFromAppended(appended);
    expect(line).to.not.contain("\n");
    expect(appendedFrom(Buffer.from(line))).to.deep.equal(appended);
    expect(appendedFrom(Buffer.from(lineFromSealed(3, SEALED)))).to.equal(undefined);
  });
});

describe("lines over a connection", () => {
  let dir: SocketDir;
  let server: Server;
  let path: string;
  let reader: Socket;
  let writer: Socket;
  let heard: string[];

  beforeEach(async () => {
    dir = await createSocketDir();
    path = join(dir.path, "lines");
    server = createServer();
    await once(server.listen(path), "listening");
    const accepted = once(server, "connection");
    writer = open(path).on("error", () => undefined);
    reader = ((await accepted) as [Socket])[0].on("error", () => undefined);
    heard = [];
  });
  afterEach(async () => {
    writer.destroy();
    reader.destroy();
    server.close();
    await dir.remove();
  });

  const listen = (): void => readLines(reader, (line) => void heard.push(line.toString()));
  const LINES = ["", "one", "zwölf 漢字 👩‍👩‍👧", "a\ttab", "x".repeat(200_000), "last"];

  it("are read one by one when many come in one write.", async () => {
    listen();
    writer.end(`${LINES.join("\n")}\n`);
    await closed(reader);
    expect(heard).to.deep.equal(LINES);
  });

  it("are read alike wherever they are cut, also inside of a character.", async () => {
    listen();
    const bytes = Buffer.from("é 漢\n👩‍👩‍👧\tß\n");
    writer.setNoDelay();
    for (let cut = 0; cut <= bytes.length; cut++) {
      for (const part of [bytes.subarray(0, cut), bytes.subarray(cut)]) {
        if (part.length === 0) continue;
        const read = once(reader, "data");
        writer.write(part);
        await read;
      }
      expect(heard.splice(0), `cut after ${cut} bytes`).to.deep.equal(["é 漢", "👩‍👩‍👧\tß"]);
    }
  });

  it("are sent in their order, whenever they are written.", async () => {
    listen();
    const send = createLineWriter(writer);
    const sent = Array.from({ length: 500 }, (_, index) => `line ${index} é`);
    for (const [index, line] of sent.entries()) {
      send(line);
      if (index % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await new Promise((resolve) => setImmediate(resolve));
    writer.end();
    await closed(reader);
    expect(heard).to.deep.equal(sent);
  });

  it("end with one that is no JSON, and what comes after it is not read.", async () => {
    for (const from of [questionFrom, answerFrom]) expect(() => from(Buffer.from("{no JSON"))).to.throw(SyntaxError);
    readLines(reader, (line) => void heard.push(questionFrom(line).workspaceId));
    const question = lineFromQuestion({ id: 1, workspaceId: "w", action: PLAIN });
    writer.write(`${question}\nno JSON\t\n${question}\n`);
    await Promise.all([closed(reader), closed(writer)]);
    expect(heard).to.deep.equal(["w"]);
  });

  it("that nobody can hear any more harm nobody.", async () => {
    const send = createLineWriter(writer);
    reader.destroy();
    await closed(writer);
    send("late");
    await new Promise((resolve) => setImmediate(resolve));
    expect(writer.destroyed).to.equal(true);
  });
});
