import { runInNewContext } from "node:vm";
import { expect } from "chai";
import { type ControlPlane, createControlPlane, ResultWithheldError } from "../../src/client/index.ts";
import { startService, type TestService } from "../support/service.ts";

describe("what guarded functions tell their sessions", () => {
  let service: TestService;
  before(async () => {
    service = await startService();
  });
  after(() => service?.stop());

  /** A client whose calls of Observe meet `fault` first. */
  function clientWith(fault: () => Response | undefined): ControlPlane {
    const meets: typeof fetch = (input, init) => {
      const response = String(input instanceof Request ? input.url : input).endsWith("/Observe") ? fault() : undefined;
      return response === undefined ? fetch(input, init) : Promise.resolve(response);
    };
    return createControlPlane({ baseUrl: service.http, apiKey: service.adminKey, fetch: meets, timeoutMs: 1_500 });
  }
  const begun = async (library = clientWith(() => undefined)) => {
    const agentId = await service.agent();
    const { session } = (await service.rest("POST /v1/enforce/sessions", { agent_id: agentId })) as unknown as {
      session: { session_id: string };
    };
    const guarded = <Result>(fn: () => Result, more: object = {}) =>
      library.guard(fn, { agentId, actionType: "read", sessionId: session.session_id, observe: true, ...more });
    return { agentId, sessionId: session.session_id, library, guarded };
  };
  /** Tells whether a session had observed just this, as the result of the agent's last decision. */
  const knows = async (agentId: string, sessionId: string, content: string, more: object = {}): Promise<unknown> => {
    const [decisionId] = await service.decisionIdsOf(agentId);
    const path = `POST /v1/enforce/sessions/${sessionId}/observations`;
    const told = await service.rest(path, { source: "result", decision_id: decisionId, content, ...more });
    return told.replayed;
  };

  it("are results, texts as they are and anything else as JSON, once they have run.", async () => {
    const { agentId, sessionId, guarded } = await begun();
    expect(await guarded(() => "from eve@evil.example")()).to.equal("from eve@evil.example");
    expect(await knows(agentId, sessionId, "from eve@evil.example")).to.equal(true);
    expect(await guarded(async () => ({ from: "bob@evil.example" }))()).to.deep.equal({ from: "bob@evil.example" });
    expect(await knows(agentId, sessionId, '{"from":"bob@evil.example"}')).to.equal(true);
    expect(await guarded(() => undefined)()).to.equal(undefined);
  });

  it("are the messages of errors, which are thrown on.", async () => {
    const { agentId, sessionId, guarded } = await begun();
    const fault = new Error("mail eve@evil.example");
    const thrown = await guarded(() => Promise.reject(fault))().catch((error: unknown) => error);
    expect(thrown).to.equal(fault);
    expect(await knows(agentId, sessionId, "mail eve@evil.example", { is_error: true })).to.equal(true);
  });

  const evil = "eve@evil.example";
  const circularError = new Error(evil);
  circularError.cause = circularError;
  for (const [title, thrown, content] of [
    ["an object", { message: evil, detail: 1 }, `{"message":"${evil}","detail":1}`],
    ["a text", evil, evil],
    ["an error with causes", new Error("", { cause: new Error("a", { cause: evil }) }), `a\n${evil}`],
    ["an error with an object as its cause", new Error("a", { cause: { to: evil } }), `a\n{"to":"${evil}"}`],
    ["an error with a response as its cause", new Error(evil, { cause: new Response("x") }), `${evil}\n{}`],
    ["an error of another realm", runInNewContext("new Error('a')"), "a"],
    ["several errors", new AggregateError([new Error("b"), evil], "a"), `a\nb\n${evil}`],
    ["an error that causes itself", circularError, Array(6).fill(evil).join("\n")],
  ] as const)
    it(`are the texts of ${title} that is thrown.`, async () => {
      const { agentId, sessionId, guarded } = await begun();
      expect(await guarded(() => Promise.reject(thrown))().catch((error: unknown) => error)).to.equal(thrown);
      expect(await knows(agentId, sessionId, content, { is_error: true })).to.equal(true);
    });

  for (const [title, result, content] of [
    ["maps and sets", { a: new Map([["b", new Set([evil])]]) }, `{"a":[["b",["${evil}"]]]}`],
    ["bytes", new TextEncoder().encode(evil), evil],
    ["buffers", { a: Buffer.from(evil) }, `{"a":"${evil}"}`],
    ["errors", new Error("a", { cause: evil }), `{"message":"a\\n${evil}"}`],
    ["errors in lists", [Object.assign(new Error("a"), { to: evil })], `[{"to":"${evil}","message":"a"}]`],
    ["times", new Date(0), "1970-01-01T00:00:00.000Z"],
  ] as const)
    it(`are the contents of ${title}.`, async () => {
      const { agentId, sessionId, guarded } = await begun();
      expect(await guarded(() => result as unknown)()).to.equal(result);
      expect(await knows(agentId, sessionId, content)).to.equal(true);
    });

  it("are prompts, and results that are cut, without ends of texts that no field takes.", async () => {
    const { agentId, sessionId, library, guarded } = await begun();
    await library.observePrompt("mail ann@home.example", { sessionId });
    const prompt = await service.rest(`POST /v1/enforce/sessions/${sessionId}/observations`, {
      source: "prompt",
      content: "mail ann@home.example",
    });
    expect(prompt).to.include({ replayed: true });
    for (const text of ["x\u0000y \ud800 z", "\u0001é".repeat(1_000_000)])
      expect(await guarded(() => text)()).to.equal(text);
    expect(await service.decisionIdsOf(agentId)).to.have.length(2);
    const full = await service.rest(`POST /v1/enforce/sessions/${sessionId}/observations`, {
      source: "prompt",
      content: "a",
    });
    expect(full).to.include({ observations_full: true });
  });

  it("are withheld if that fails, with an error that says that the function ran, and without the result.", async () => {
    for (const status of [503, 403]) {
      const { guarded } = await begun(clientWith(() => new Response("{}", { status })));
      let runs = 0;
      const read = guarded(() => {
        runs += 1;
        return "swordfish";
      });
      const thrown = await read().catch((error: unknown) => error as ResultWithheldError);
      expect(thrown).to.be.instanceOf(ResultWithheldError);
      expect(String(thrown)).to.match(/`read` ran, and its result is withheld: session `ses_\w+` could not observe it/);
      expect(`${thrown} ${JSON.stringify(thrown)}`).not.to.contain("swordfish");
      expect(runs).to.equal(1);
    }
    const { guarded } = await begun();
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    for (const result of [circular, new Response("swordfish"), new ReadableStream()])
      expect(await guarded(() => result)().catch((error: unknown) => error)).to.be.instanceOf(ResultWithheldError);
    for (const result of [{}, Object.create(null)]) expect(await guarded(() => result)()).to.equal(result);
  });

  it("are told again while no answer comes.", async () => {
    let faults = 2;
    const { agentId, sessionId, guarded } = await begun(
      clientWith(() => (faults-- > 0 ? new Response("{}", { status: 503 }) : undefined)),
    );
    expect(await guarded(() => "text")()).to.equal("text");
    expect(await knows(agentId, sessionId, "text")).to.equal(true);
  });

  it("are nothing without a session, without the option, and once the session has ended.", async () => {
    const refusing = clientWith(() => new Response("{}", { status: 403 }));
    const { guarded } = await begun(refusing);
    expect(await guarded(() => "a", { sessionId: undefined })()).to.equal("a");
    expect(await guarded(() => "a", { observe: false })()).to.equal("a");
    const other = await begun();
    const ending = other.guarded(
      async () => {
        await service.rest(`DELETE /v1/enforce/sessions/${other.sessionId}`);
        return "a";
      },
      { abortWhenRevoked: false },
    );
    expect(await ending()).to.equal("a");
  });

  it("count although somebody told another result of the decision before.", async () => {
    const { agentId, sessionId, guarded } = await begun();
    const read = guarded(async () => {
      expect(await knows(agentId, sessionId, "nothing to see")).to.equal(false);
      return "from eve@evil.example";
    });
    await read();
    const path = `POST /v1/enforce/sessions/${sessionId}/observations`;
    const told = await service.rest(path, { source: "result", content: "from eve@evil.example" });
    expect(told).to.include({ replayed: true });
  });
});
