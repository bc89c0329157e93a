import type { FunctionTool } from "@openai/agents";
import { argumentsFrom, ToolGuard, type ToolGuardOptions } from "./tool-guard.ts";

export type { ToolGuardOptions } from "./tool-guard.ts";

type Details = Parameters<FunctionTool["invoke"]>[2];

/** A `FunctionTool` of any context, parameters and result. */
interface InvokableTool {
  readonly type: "function";
  readonly name: string;
  readonly description: string;
  readonly parameters: unknown;
  readonly invoke: (context: never, input: string, details?: Details) => Promise<unknown>;
}

/**
 * Guards function tools of the OpenAI Agents SDK (`@openai/agents`). A call that escalates waits for a person without
 * interrupting its run. A tool's own `needsApproval` still applies.
 */
export function guardTools<Tool extends InvokableTool>(tools: readonly Tool[], options: ToolGuardOptions): Tool[] {
  const guard = new ToolGuard(options);
  return tools.map((tool) => {
    const { name, description, parameters } = tool;
    const invoke: InvokableTool["invoke"] = (context, input, details) => {
      const args = argumentsFrom(parsed(input));
      return guard.call(
        { name, description, inputSchema: () => parameters },
        args,
        // The model's own text, unless a person changed the arguments.
        (allowed) => tool.invoke(context, allowed === args ? input : JSON.stringify(allowed), details),
        (forModel) => forModel,
        { signal: details?.signal },
      );
    };
    return { ...tool, invoke };
  });
}

/** Parses a model's arguments. Text that is not JSON stays text, which the tool itself refuses. */
function parsed(input: string): unknown {
  try {
    return JSON.parse(input === "" ? "{}" : input);
  } catch {
    return input;
  }
}
