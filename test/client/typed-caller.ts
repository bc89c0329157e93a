/* Uses of the library that the compiler takes, and those that it must not. `tsc` checks this file; it is never run. */
import { DynamicStructuredTool, tool as langchainTool, type StructuredToolInterface } from "@langchain/core/tools";
import { Agent, tool as agentsTool, type FunctionTool } from "@openai/agents";
import { tool as aiTool, generateText, type LanguageModel } from "ai";
import { z } from "zod";
import { guardTools as guardAiTools } from "../../src/client/adapters/ai-sdk.ts";
import { guardTools as guardLangchainTools } from "../../src/client/adapters/langchain.ts";
import { guardTools as guardAgentsTools } from "../../src/client/adapters/openai-agents.ts";
import type { ControlPlane, PendingApproval } from "../../src/client/index.ts";

declare const controlPlane: ControlPlane;
const pay = (amount: number, to: string) => `paid ${amount} to ${to}`;
const toArguments = (amount: number, to: string) => ({ amount, to });
const tool = "pay";

/** Guarded functions keep their parameters and result. */
export const guarded = {
  waiting: controlPlane.guard(pay, { tool, toArguments })(1, "Ann") satisfies Promise<string>,
  // @ts-expect-error: a call that does not wait may be pending.
  unwaiting: controlPlane.guard(pay, { tool, toArguments, waitOnEscalate: false })(1, "Ann") satisfies Promise<string>,
  pending: controlPlane.guard(pay, { tool, toArguments, waitOnEscalate: false })(1, "Ann") satisfies Promise<
    string | PendingApproval
  >,
  editable: controlPlane.guard(pay, {
    tool,
    toArguments,
    acceptEdits: true,
    fromArguments: ({ amount, to }) => [Number(amount), String(to)],
  })(1, "Ann") satisfies Promise<string>,
  inferred: controlPlane.guard(pay, {
    tool,
    toArguments: (amount, to) => ({ cents: amount.toFixed(2), to: to.trim() }),
  }),
  stoppable: controlPlane.guardWithSignal((signal, text: string) => text + signal.aborted, {
    tool,
    toArguments: (text) => ({ text }),
  }),
  // @ts-expect-error: the parameters are those of the function.
  wrong: controlPlane.guard(pay, { tool, toArguments })("much", "Ann"),
};

/** Only parameters that have names for rules do without `toArguments`. */
export const unnamed = {
  nothing: controlPlane.guard(() => 1, { tool })() satisfies Promise<number>,
  members: controlPlane.guard(({ amount }: { amount: number }) => amount, { tool }),
  // @ts-expect-error: `toArguments` is missing.
  text: controlPlane.guard((text: string) => text, { tool }),
  // @ts-expect-error: `toArguments` is missing.
  list: controlPlane.guard((texts: string[]) => texts, { tool }),
  // @ts-expect-error: `toArguments` is missing.
  several: controlPlane.guard(pay, { tool }),
  // @ts-expect-error: `toArguments` is missing.
  edited: controlPlane.guard(pay, { tool, acceptEdits: true, fromArguments: () => [1, "Ann"] }),
  // @ts-expect-error: `toArguments` is missing.
  unwaiting: controlPlane.guard(pay, { tool, waitOnEscalate: false }),
};

/** An option that does not exist would be ignored, unnoticed. */
export const mistyped = [
  // @ts-expect-error: `onUnreached` is no option.
  controlPlane.guard(pay, { tool, toArguments, onUnreached: "block" }),
  // @ts-expect-error: `ignore` is no behaviour.
  controlPlane.guard(pay, { tool, toArguments, onUnreachable: "ignore" }),
  // @ts-expect-error: edits do not go with a call that does not wait.
  controlPlane.guard(pay, {
    tool,
    toArguments,
    waitOnEscalate: false,
    acceptEdits: true,
    fromArguments: () => [1, ""],
  }),
];

const PAYMENT = z.object({ amount: z.number() });
const PATH = z.object({ path: z.string() });

/** Tools of frameworks pass through `guardTools` without a cast, and keep their types. */
export const frameworks = () => {
  const options = { controlPlane };
  const payment = agentsTool({ name: "pay", description: "", parameters: PAYMENT, execute: async () => "paid" });
  const read = agentsTool({ name: "read", description: "", parameters: PATH, execute: async ({ path }) => ({ path }) });
  const same: (typeof payment)[] = guardAgentsTools([payment], options);
  const ofUser = guardAgentsTools([{} as FunctionTool<{ readonly user: string }>], options);
  // @ts-expect-error: a hosted tool has no function to guard.
  guardAgentsTools([{ type: "hosted_tool", name: "web_search" }], options);

  const send = new DynamicStructuredTool({ name: "pay", description: "", schema: PAYMENT, func: async () => "paid" });
  const open = langchainTool(async ({ path }) => path, { name: "read", schema: PATH });
  const ofLangchain: StructuredToolInterface[] = guardLangchainTools([send, open], options);
  const opened: (typeof open)[] = guardLangchainTools([open], options);

  const tools = { pay: aiTool({ inputSchema: PAYMENT, execute: async ({ amount }) => amount }) };
  const ofAi = guardAiTools(tools, options);
  const kept: typeof tools = ofAi.tools;
  return [
    new Agent({ name: "payer", tools: [...same, ...guardAgentsTools([payment, read], options)] }),
    new Agent<{ readonly user: string }>({ name: "user's", tools: ofUser }),
    generateText({ model: {} as LanguageModel, ...ofAi, prompt: "pay" }),
    [ofLangchain, opened, kept],
  ];
};
