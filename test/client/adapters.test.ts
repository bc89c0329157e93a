import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { DynamicStructuredTool } from "@langchain/core/tools";
import { Agent, tool as agentsTool, type Model, Runner, setTracingDisabled, Usage } from "@openai/agents";
import { tool as aiTool, generateText, isStepCount, type LanguageModel } from "ai";
import { expect } from "chai";
import express from "express";
import fastify from "fastify";
import { z } from "zod";
import { guardTools as guardAiTools } from "../../src/client/adapters/ai-sdk.ts";
import { expressGuard, fastifyGuard } from "../../src/client/adapters/http.ts";
import { guardTools as guardLangchainTools } from "../../src/client/adapters/langchain.ts";
import { guardClient } from "../../src/client/adapters/mcp.ts";
import { guardTools as guardAgentsTools } from "../../src/client/adapters/openai-agents.ts";
import { AgentStoppedError } from "../../src/client/index.ts";
import { connectStateful, connectStateless } from "../gateway/harness.ts";
import { tool as mcpTool, startToolsServer, type ToolsServer } from "../gateway/tools-server.ts";
import { until } from "../gateway/until.ts";
import { startService, type TestService } from "../support/service.ts";

const PAYMENT = z.object({ amount: z.number(), to: z.string() });

/** What an adapter makes of one call of the tool `pay`: what the model reads, and the payments that were made. */
interface Called {
  readonly read: string;
  readonly paid: readonly unknown[];
}

/** One framework with its adapter. */
interface Framework {
  readonly name: string;
  /** Name of the tool at the control plane. */
  readonly tool: string;
  call(agentId: string, args: { amount: number; to: string }): Promise<Called>;
}

describe("adapters of the client library", () => {
  let service: TestService;
  let upstream: ToolsServer;
  const rule = (tool: string, decision: string, min: number, max = 1e9) => ({
    type: "argument",
    tool,
    decision,
    conditions: { operator: "AND", rules: [{ field: "amount", operator: "between", value: [min, max] }] },
  });

  before(async () => {
    setTracingDisabled(true);
    upstream = await startToolsServer([
      mcpTool("pay", {
        inputSchema: { type: "object", properties: { amount: { type: "number" }, to: { type: "string" } } },
      }),
    ]);
    service = await startService();
  });
  after(async () => {
    await service?.stop();
    await upstream?.close();
  });

  const optionsOf = (agentId: string) => ({
    controlPlane: service.admin,
    registerWith: service.admin,
    agentId,
    acceptEdits: true,
    // Whatever was asked for.
    amount: (_result: unknown, name: string) => (name.endsWith("pay") ? 5 : undefined),
  });

  /** Waits until the last decision of an agent, which its call claimed, has an outcome. */
  async function expectOutcome(agentId: string, want: { status: string; amount?: number }): Promise<void> {
    await until(async () => {
      const path = `GET /v1/enforce/decisions?agent_id=${agentId}&page_size=1`;
      const { decisions } = (await service.rest(path)) as unknown as {
        decisions: { claim: object | null; outcome: { status: string; amount: number | null } | null }[];
      };
      const [{ claim, outcome } = { claim: null, outcome: null }] = decisions;
      return claim !== null && outcome?.status === want.status && (outcome.amount ?? undefined) === want.amount;
    });
  }

  /** A model of the AI SDK that calls the tool once, and then says what it read. */
  const aiModel = (args: object): LanguageModel =>
    ({
      specificationVersion: "v4",
      provider: "test",
      modelId: "test",
      supportedUrls: {},
      async doGenerate({ prompt }: { prompt: { role: string; content: unknown }[] }) {
        const last = prompt.at(-1);
        const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
        if (last?.role !== "tool") {
          const call = { type: "tool-call", toolCallId: "c1", toolName: "pay", input: JSON.stringify(args) };
          return { content: [call], finishReason: { unified: "tool-calls" }, usage, warnings: [] };
        }
        const text = JSON.stringify(last.content);
        return { content: [{ type: "text", text }], finishReason: { unified: "stop" }, usage, warnings: [] };
      },
    }) as unknown as LanguageModel;

  const aiSdk = (isApproved: boolean): Framework => ({
    name: `the Vercel AI SDK${isApproved ? " with its tool approval" : ""}`,
    tool: "pay",
    async call(agentId, args) {
      const paid: unknown[] = [];
      const pay = aiTool({
        description: "pays",
        inputSchema: PAYMENT,
        execute: async (given) => {
          paid.push(given);
          return `paid ${given.amount}`;
        },
      });
      const { tools, toolApproval } = guardAiTools({ pay }, optionsOf(agentId));
      const model = aiModel(args);
      const { text } = await generateText({
        model,
        tools,
        prompt: "pay",
        stopWhen: isStepCount(3),
        ...(isApproved && { toolApproval }),
      });
      return { read: text, paid };
    },
  });

  const openaiAgents: Framework = {
    name: "the OpenAI Agents SDK",
    tool: "pay",
    async call(agentId, args) {
      const paid: unknown[] = [];
      const pay = agentsTool({
        name: "pay",
        description: "pays",
        parameters: PAYMENT,
        execute: async (given) => {
          paid.push(given);
          return `paid ${given.amount}`;
        },
      });
      const tools = guardAgentsTools([pay], optionsOf(agentId));
      const model: Model = {
        async getResponse({ input }) {
          const last = Array.isArray(input) ? input.at(-1) : undefined;
          const isAnswered = last?.type === "function_call_result";
          const call = { type: "function_call", callId: "c1", name: "pay", arguments: JSON.stringify(args) };
          const text = JSON.stringify(last ?? null);
          const said = { type: "message", role: "assistant", content: [{ type: "output_text", text }] };
          return { usage: new Usage(), output: [{ status: "completed", ...(isAnswered ? said : call) }] } as never;
        },
        getStreamedResponse: () => {
          throw new Error("not streamed");
        },
      };
      const agent = new Agent({ name: "payer", tools, model });
      const { finalOutput } = await new Runner().run(agent, "pay");
      return { read: String(finalOutput), paid };
    },
  };

  const langchain: Framework = {
    name: "LangChain",
    tool: "pay",
    async call(agentId, args) {
      const paid: unknown[] = [];
      const pay = new DynamicStructuredTool({
        name: "pay",
        description: "pays",
        schema: PAYMENT,
        func: async (given: z.infer<typeof PAYMENT>) => {
          paid.push(given);
          return `paid ${given.amount}`;
        },
      });
      const [guarded] = guardLangchainTools([pay], optionsOf(agentId));
      // As an agent's node calls it.
      const message = await guarded?.invoke({ type: "tool_call", id: "c1", name: "pay", args });
      return { read: JSON.stringify(message), paid };
    },
  };

  const mcp = (generation: "2025-11-25" | "2026-07-28"): Framework => ({
    name: `an MCP client of ${generation}`,
    tool: "bank.pay",
    async call(agentId, args) {
      upstream.calls.length = 0;
      const connect = generation === "2025-11-25" ? connectStateful : connectStateless;
      const client = await connect(new URL(upstream.url));
      const guarded = guardClient(client as Awaited<ReturnType<typeof connectStateless>>, {
        ...optionsOf(agentId),
        server: "bank",
      });
      try {
        const result = await guarded.callTool({ name: "pay", arguments: args });
        const paid = upstream.calls.map((call) => (call as { arguments: unknown }).arguments);
        return { read: JSON.stringify(result), paid };
      } finally {
        await client.close();
      }
    },
  });

  const frameworks = [aiSdk(false), aiSdk(true), openaiAgents, langchain, mcp("2025-11-25"), mcp("2026-07-28")];

  it("report a result of an MCP server that says `isError` as failed, and give it to the model.", async () => {
    const client = await connectStateless(new URL(upstream.url));
    const agentId = await service.agent();
    const options = { controlPlane: service.admin, agentId, server: "bank" };
    const broken = Object.assign(Object.create(client) as typeof client, {
      callTool: async () => ({ content: [], isError: true }),
    });
    try {
      expect(await guardClient(broken, options).callTool({ name: "ping" })).to.include({ isError: true });
      await expectOutcome(agentId, { status: "failed" });
    } finally {
      await client.close();
    }
  });

  /** The escalation that an agent waits for. */
  async function pendingOf(agentId: string): Promise<string> {
    let id = "";
    await until(async () => {
      const path = `GET /v1/enforce/escalations?status=pending&agent_id=${agentId}`;
      const { escalations } = (await service.rest(path)) as unknown as { escalations: { escalation_id: string }[] };
      id = escalations[0]?.escalation_id ?? "";
      return id !== "";
    });
    return id;
  }

  for (const framework of frameworks) {
    describe(framework.name, () => {
      before(async () => {
        // The first call registers the tool, so that rules can name its arguments.
        await framework.call(await service.agent(), { amount: 1, to: "ACME" });
        const rules = [rule(framework.tool, "escalate", 100, 999), rule(framework.tool, "block", 1000)];
        await service.rest("POST /v1/enforce/mandates", { name: `limits of ${framework.name}`, rules });
      });

      it("registers what the tool's schema says.", async () => {
        const { tool } = (await service.rest(`GET /v1/enforce/tools/${framework.tool}`)) as unknown as {
          tool: { arguments: { path: string; types: string[] }[] };
        };
        expect(tool.arguments.find(({ path }) => path === "amount")?.types).to.deep.equal(["number"]);
      });

      it("runs a tool that is allowed, and seals one decision.", async () => {
        const agentId = await service.agent();
        const { read, paid } = await framework.call(agentId, { amount: 5, to: "ACME" });
        expect(paid).to.deep.equal([{ amount: 5, to: "ACME" }]);
        expect(read).to.contain("5");
        expect(await service.decisionIdsOf(agentId)).to.have.length(1);
        await expectOutcome(agentId, { status: "succeeded", amount: 5 });
      });

      it("tells the model why a call was blocked, and does not run it.", async () => {
        const { read, paid } = await framework.call(await service.agent(), { amount: 5000, to: "ACME" });
        expect(paid).to.deep.equal([]);
        expect(read).to.contain("not permitted").and.to.contain("amount");
      });

      it("waits for a person, and runs the call once.", async () => {
        const agentId = await service.agent();
        const calling = framework.call(agentId, { amount: 500, to: "ACME" });
        await service.resolve(await pendingOf(agentId), "approved");
        expect((await calling).paid).to.deep.equal([{ amount: 500, to: "ACME" }]);
        await expectOutcome(agentId, { status: "succeeded", amount: 5 });
      });

      it("tells the model what a person said who rejected it.", async () => {
        const agentId = await service.agent();
        const calling = framework.call(agentId, { amount: 500, to: "ACME" });
        const path = `POST /v1/enforce/escalations/${await pendingOf(agentId)}/resolve`;
        await service.rest(path, { resolution: "rejected", note: "ask Ann first" });
        const { read, paid } = await calling;
        expect(paid).to.deep.equal([]);
        expect(read).to.contain("ask Ann first");
      });

      it("runs with the arguments that a person put in place of its own.", async () => {
        const agentId = await service.agent();
        const calling = framework.call(agentId, { amount: 500, to: "ACME" });
        const path = `POST /v1/enforce/escalations/${await pendingOf(agentId)}/edit`;
        await service.rest(path, { arguments: { amount: 50, to: "ACME" } });
        expect((await calling).paid).to.deep.equal([{ amount: 50, to: "ACME" }]);
      });

      it("ends when the agent is revoked while it waits.", async () => {
        const agentId = await service.agent();
        const calling = framework.call(agentId, { amount: 500, to: "ACME" });
        await pendingOf(agentId);
        await service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, {});
        const ended = await calling.catch((error: unknown) => error);
        if (ended instanceof Error) expect(String(ended)).to.match(/revoked/);
        else expect((ended as Called).paid).to.deep.equal([]);
      });
    });
  }

  describe("of HTTP frameworks", () => {
    let agentId: string;
    let served: string[];
    before(async () => {
      agentId = await service.agent();
      await service.rest("POST /v1/enforce/tools", {
        name: "refunds.send",
        input_schema: { type: "object", properties: { amount: { type: "number" } } },
      });
      const rules = [rule("refunds.send", "block", 1000)];
      await service.rest("POST /v1/enforce/mandates", { name: "refunds", rules });
    });
    beforeEach(() => {
      served = [];
    });

    /** A handler's answer by the amount: 502 is a response of its own, and a negative amount none. */
    const statusOf = (amount: number): number => (amount === 502 ? 502 : 200);

    async function expectReported(url: string): Promise<void> {
      await post(url, 6);
      await expectOutcome(agentId, { status: "succeeded" });
      expect((await post(url, 502)).status).to.equal(502);
      await expectOutcome(agentId, { status: "failed" });
      const leaving = new AbortController();
      const sent = fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ amount: -1 }),
        signal: leaving.signal,
      }).catch(() => undefined);
      await until(() => served.includes("-1"));
      leaving.abort();
      await sent;
      await expectOutcome(agentId, { status: "pending" });
    }

    const guardOptions = () => ({ controlPlane: service.admin, agentId, tool: "refunds.send" });

    async function post(url: string, amount: number): Promise<Response> {
      return fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ amount }),
      });
    }

    async function expectGuarded(url: string): Promise<void> {
      expect((await post(url, 5)).status).to.equal(200);
      const refused = await post(url, 5000);
      expect(refused.status).to.equal(403);
      const { error } = (await refused.json()) as { error: Record<string, unknown> };
      expect(error).to.include({ decision: "block" });
      expect(error.message).to.contain("not permitted");
      expect(served).to.deep.equal(["5"]);
    }

    it("let an Express handler run only if its request may pass.", async () => {
      const app = express().use(express.json());
      app.post("/refunds", expressGuard(guardOptions()), (request, response) => {
        const { amount } = request.body as { amount: number };
        served.push(String(amount));
        if (amount >= 0) response.status(statusOf(amount)).json({ ok: true });
      });
      const server = app.listen(0, "127.0.0.1");
      await once(server, "listening");
      try {
        const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/refunds`;
        await expectGuarded(url);
        await expectReported(url);
      } finally {
        server.close();
      }
    });

    it("let a Fastify handler run only if its request may pass.", async () => {
      const app = fastify();
      app.post("/refunds", { preHandler: fastifyGuard(guardOptions()) }, async (request, reply) => {
        const { amount } = request.body as { amount: number };
        served.push(String(amount));
        if (amount < 0) return await new Promise((resolve) => reply.raw.once("close", resolve));
        return await reply.code(statusOf(amount)).send({ ok: true });
      });
      try {
        const url = `${await app.listen({ port: 0, host: "127.0.0.1" })}/refunds`;
        await expectGuarded(url);
        await expectReported(url);
      } finally {
        await app.close();
      }
    });
  });

  it("throw for an agent that was stopped, so that its run ends.", async () => {
    const agentId = await service.agent();
    const started = Promise.withResolvers<void>();
    const pay = new DynamicStructuredTool({
      name: "wait",
      description: "waits",
      schema: z.object({}),
      func: async () => {
        started.resolve();
        return new Promise<string>(() => undefined);
      },
    });
    const [guarded] = guardLangchainTools([pay], { controlPlane: service.admin, agentId });
    const calling = guarded?.invoke({}).catch((error: unknown) => error);
    await started.promise;
    await service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, {});
    expect(await calling).to.be.instanceOf(AgentStoppedError);
  });
});
