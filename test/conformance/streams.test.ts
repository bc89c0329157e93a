import type { JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Answer, Wire } from "../support/wires.ts";
import { type CaseRun, createCaseRun } from "./case-run.ts";
import { type StreamCase, streamCases } from "./cases.ts";
import { expectError, expectPart } from "./compare.ts";
import { streamMethodOf } from "./methods.ts";
import { openService } from "./service.ts";

interface Heard {
  readonly messages: JsonValue[];
  readonly failure: Answer | undefined;
}

/** Tests for a message that a long run sends now and then: how often depends on the machine. */
const isProgress = (message: JsonValue): boolean => {
  const { progress } = message as { readonly progress?: JsonValue };
  return progress !== undefined && progress !== null;
};

/** Reads a stream until it has what is wanted; `during` is made on the way. */
async function listen(wire: Wire, caseRun: CaseRun, each: StreamCase): Promise<Heard> {
  const { want = [], during = [], during_after: after = 0, ends = false } = each;
  const leaving = new AbortController();
  const options = { key: await caseRun.keyOf(each), signal: leaving.signal };
  const messages: JsonValue[] = [];
  try {
    for await (const message of wire.stream(streamMethodOf(each.call), caseRun.fill(each.request ?? {}), options)) {
      if (messages.length > 0 && isProgress(message)) continue;
      messages.push(caseRun.normalise(message));
      if (messages.length === after) await caseRun.prepare(during);
      if (messages.length === want.length && !ends) break;
    }
  } catch (error) {
    if (error instanceof Error) throw error;
    return { messages, failure: error as Answer };
  } finally {
    leaving.abort();
  }
  return { messages, failure: undefined };
}

async function hear(wire: Wire, each: StreamCase): Promise<Heard> {
  const caseRun = await createCaseRun(await openService(), wire);
  await caseRun.prepare(each.given ?? []);
  const heard = await listen(wire, caseRun, each);
  expect(heard.failure === undefined, `${wire.name}: ${heard.failure?.message}`).to.equal(each.error === undefined);
  if (each.error !== undefined) expectError(heard.failure as Answer, each.error);
  expectPart(heard.messages, [...(each.want ?? [])]);
  return heard;
}

describe("one meaning of server streams over REST, Connect, gRPC-Web and gRPC", () => {
  for (const each of streamCases()) {
    it(each.description, async () => {
      const { wires } = await openService();
      const [first, ...others] = await Promise.all(wires.all.map((wire) => hear(wire, each)));
      for (const other of others) expect(other.messages).to.deep.equal(first?.messages);
    });
  }
});

describe("server streams as Server-Sent Events", () => {
  it("give each message as an event with the cursor as its id, and resume after it", async () => {
    const service = await openService();
    const caseRun = await createCaseRun(service, service.wires.all[0] as Wire);
    await caseRun.prepare(["agent", "escalating", "escalated", "escalated_again", "approved"]);
    const leaving = new AbortController();
    const headers = {
      "x-api-key": (await caseRun.keyOf({})) ?? "",
      accept: "text/event-stream",
      "last-event-id": "4",
    };
    const response = await fetch(`${service.server.http}/v1/enforce/escalations:watch`, {
      headers,
      signal: leaving.signal,
    });
    expect(response.headers.get("content-type")).to.equal("text/event-stream");
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      if (text.includes('"resolved"') && text.endsWith("\n\n")) break;
    }
    leaving.abort();
    expect([...text.matchAll(/^id: ?(.*)$/gm)].map(([, id]) => id)).to.deep.equal(["5", "6"]);
    expect([...text.matchAll(/"change":"(\w+)"/g)].map(([, word]) => word)).to.deep.equal(["created", "resolved"]);
  });
});
