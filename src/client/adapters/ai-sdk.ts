import { asSchema, type ToolApprovalStatus, type ToolSet } from "ai";
import { createRequestId } from "../request-id.ts";
import { argumentsFrom, type GuardedTool, inputFrom, ToolGuard, type ToolGuardOptions } from "./tool-guard.ts";

export type { ToolGuardOptions } from "./tool-guard.ts";

/** A tool call for which the SDK asks for approval. */
interface Approvable {
  readonly toolCall: { readonly toolCallId: string; readonly toolName: string; readonly input: unknown };
}

/** Tools for the Vercel AI SDK whose calls the control plane decides. */
export interface GuardedToolSet<Tools extends ToolSet> {
  /** The same tools, for `generateText`, `streamText` and agents. */
  readonly tools: Tools;
  /**
   * Function for the SDK's option `toolApproval`: a call is decided before the SDK runs it, and an escalation is the approval for
   * which the SDK waits. The model is told of a block or a rejection as `denied`, with the reason. Without this function, the
   * call is decided when the tool runs. Either way there is one decision.
   */
  readonly toolApproval: (call: Approvable) => Promise<ToolApprovalStatus>;
}

type Execute = (input: unknown, options: { toolCallId: string; abortSignal?: AbortSignal }) => unknown;

/** Guards the tools of the Vercel AI SDK (`ai` 7). Tools without `execute`, which the client runs, are unchanged. */
export function guardTools<Tools extends ToolSet>(tools: Tools, options: ToolGuardOptions): GuardedToolSet<Tools> {
  const guard = new ToolGuard(options);
  // The approval of a call and its execution are one request.
  const requestIds = new Map<string, string>();
  const guarded = Object.fromEntries(
    Object.entries(tools).map(([name, tool]) => {
      const { execute } = tool as { execute?: Execute };
      if (execute === undefined) return [name, tool];
      const run: Execute = (input, call) => {
        const requestId = requestIds.get(call.toolCallId);
        requestIds.delete(call.toolCallId);
        return guard.call(
          toolOf(name, tool),
          argumentsFrom(input),
          (args, abortSignal) => settled(execute.call(tool, inputFrom(args, input), { ...call, abortSignal })),
          (forModel) => forModel,
          { requestId, signal: call.abortSignal },
        );
      };
      return [name, { ...tool, execute: run }];
    }),
  ) as Tools;
  const toolApproval = async ({ toolCall: { toolCallId, toolName, input } }: Approvable) => {
    const tool = tools[toolName];
    if (tool === undefined || (tool as { execute?: Execute }).execute === undefined) return undefined;
    const requestId = createRequestId();
    requestIds.set(toolCallId, requestId);
    const denied = (reason: string) => {
      requestIds.delete(toolCallId);
      return { type: "denied", reason } as const;
    };
    const status = await guard.ask(toolOf(toolName, tool), argumentsFrom(input), denied, requestId);
    if (status !== "unchecked") return status;
    requestIds.delete(toolCallId);
    return "approved";
  };
  return { tools: guarded, toolApproval };
}

const toolOf = (name: string, tool: ToolSet[string]): GuardedTool => ({
  name,
  description: typeof tool.description === "string" ? tool.description : undefined,
  inputSchema: () => asSchema(tool.inputSchema).jsonSchema,
});

/** Resolves with the result of `execute`: the last one of a stream of results. */
async function settled(result: unknown): Promise<unknown> {
  const isStream = typeof result === "object" && result !== null && Symbol.asyncIterator in result;
  if (!isStream) return await result;
  let last: unknown;
  for await (const each of result as AsyncIterable<unknown>) last = each;
  return last;
}
