import type { StructuredTool } from "@langchain/core/tools";
import { toJsonSchema } from "@langchain/core/utils/json_schema";
import { argumentsFrom, inputFrom, ToolGuard, type ToolGuardOptions } from "./tool-guard.ts";

export type { ToolGuardOptions } from "./tool-guard.ts";

interface CallConfig {
  readonly signal?: AbortSignal | undefined;
}

type Call = (input: unknown, runManager?: unknown, config?: CallConfig) => unknown;

/** Guards tools of LangChain (`@langchain/core`), for agents, `ToolNode` and `invoke`. */
export function guardTools<Tool extends StructuredTool>(tools: readonly Tool[], options: ToolGuardOptions): Tool[] {
  const guard = new ToolGuard(options);
  return tools.map((tool) => {
    const run = (tool as unknown as { _call: Call })._call.bind(tool);
    const { name, description, responseFormat } = tool;
    // By now the input is checked against the tool's schema, and callbacks see the guarded call.
    const call: Call = (input, runManager, config) =>
      guard.call(
        { name, description, inputSchema: () => toJsonSchema(tool.schema as Parameters<typeof toJsonSchema>[0]) },
        argumentsFrom(input),
        (args, signal) => settled(run(inputFrom(args, input), runManager, { ...config, signal })),
        (forModel) => (responseFormat === "content_and_artifact" ? [forModel, undefined] : forModel),
        { signal: config?.signal },
      );
    return Object.create(tool, { _call: { value: call } }) as Tool;
  });
}

/** Resolves with the result of a tool, which may be the return value of a generator. */
async function settled(result: unknown): Promise<unknown> {
  const isStream = typeof result === "object" && result !== null && Symbol.asyncIterator in result;
  if (!isStream) return await result;
  const source = (result as AsyncIterable<unknown>)[Symbol.asyncIterator]();
  for (;;) {
    const { done, value } = await source.next();
    if (done) return value;
  }
}
