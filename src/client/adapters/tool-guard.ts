import type { JsonObject } from "@bufbuild/protobuf";
import { ToolService } from "../../../gen/agentcontrol/v1/tool_service_pb.js";
import { AgentBlockedError, AgentStoppedError } from "../blocked-error.ts";
import type { ControlPlane } from "../control-plane.ts";
import type { GuardCallOptions, GuardOptions } from "../guard-options.ts";

/** Arguments of a tool call. */
export type ToolArguments = Readonly<Record<string, unknown>>;

/** A tool, as its framework describes it. */
export interface GuardedTool {
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON Schema of the arguments; undefined if the framework has none, and then nothing is registered. */
  readonly inputSchema: () => unknown;
}

/** Options of every adapter: how the tools of one agent are guarded. */
export interface ToolGuardOptions
  extends Pick<
    GuardOptions<[ToolArguments]>,
    | ("agentId" | "sessionId" | "onBehalfOf" | "grantId" | "intentContractId" | "metadata" | "escalationTimeout")
    | ("escalationPollInterval" | "onUnreachable" | "onUnchecked" | "timeoutMs" | "abortWhenRevoked" | "onDecision")
  > {
  readonly controlPlane: ControlPlane;
  /**
   * Registers the schema of each tool before its first call, so that mandates can name its arguments. Needs a key of role
   * `operator` or `admin`. Default: nothing is registered.
   */
  readonly registerWith?: ControlPlane | undefined;
  /** Action type of a call. Default: the tool's name. */
  readonly actionType?: ((tool: string) => string) | undefined;
  /** Runs a tool with other arguments where a person approved those in place of its own. Default false. */
  readonly acceptEdits?: boolean | undefined;
  /**
   * `result` (default): the model reads why its call did not run, as the tool's result. `throw`: the call rejects with the
   * `AgentBlockedError`. An `AgentStoppedError` is thrown in any case.
   */
  readonly whenRefused?: "result" | "throw" | undefined;
}

/** Runs a tool, once, if the control plane allows it. */
export type RunTool<Result> = (args: ToolArguments, signal: AbortSignal) => Result | Promise<Result>;

/** Guards the calls of an agent's tools. One per set of tools: it remembers what it has registered. */
export class ToolGuard {
  readonly #options: ToolGuardOptions;
  readonly #registered = new Map<string, Promise<unknown>>();

  constructor(options: ToolGuardOptions) {
    this.#options = options;
  }

  actionTypeOf(tool: string): string {
    return this.#options.actionType?.(tool) ?? tool;
  }

  /** Registers a tool's schema once; a failure is tried again with the next call. Rejects with what the control plane says. */
  async register({ name, description, inputSchema }: GuardedTool): Promise<void> {
    const { registerWith } = this.#options;
    if (registerWith === undefined) return;
    const known = this.#registered.get(name);
    if (known !== undefined) return void (await known);
    const schema = await inputSchema();
    if (schema === undefined) return;
    const registering = registerWith.client(ToolService).registerTool({
      name,
      inputSchema: schema as JsonObject,
      ...(description === undefined ? {} : { description }),
    });
    this.#registered.set(name, registering);
    await registering.catch((error: unknown) => {
      this.#registered.delete(name);
      throw error;
    });
  }

  /**
   * Decides a call of a tool, waits for a person where one is needed, and runs it. `refused` makes the result that the model reads of
   * the words for it. Rejects with `AgentStoppedError`, with `ControlPlaneRequestError`, with what the tool throws, and with
   * `AgentBlockedError` if `whenRefused` is `throw`.
   */
  async call<Result, Refused>(
    tool: GuardedTool,
    args: ToolArguments,
    run: RunTool<Result>,
    refused: (forModel: string, error: AgentBlockedError) => Refused,
    given: GuardCallOptions = {},
  ): Promise<Result | Refused> {
    const { controlPlane, registerWith, actionType, acceptEdits, whenRefused = "result", ...guarding } = this.#options;
    await this.register(tool);
    const action = {
      ...guarding,
      tool: tool.name,
      actionType: this.actionTypeOf(tool.name),
      toArguments: (asked: ToolArguments) => asked,
    };
    const fromArguments = (edited: ToolArguments): [ToolArguments] => [edited];
    const guarded = controlPlane.guardWithSignal(
      async (signal: AbortSignal, allowed: ToolArguments): Promise<Result> => run(allowed, signal),
      acceptEdits === true ? { ...action, acceptEdits, fromArguments } : action,
    );
    try {
      return await guarded.with(given)(args);
    } catch (error) {
      const isRefusal = error instanceof AgentBlockedError && !(error instanceof AgentStoppedError);
      if (!isRefusal || whenRefused === "throw") throw error;
      return refused(error.forModel, error);
    }
  }
}

/** Returns a tool's input as arguments: an object as it is, anything else as `input`. */
export function argumentsFrom(input: unknown): ToolArguments {
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  return isObject ? (input as ToolArguments) : { input };
}

/** Reverses `argumentsFrom`: gives a tool whose input is no object its input back. */
export function inputFrom(args: ToolArguments, input: unknown): unknown {
  return argumentsFrom(input) === input ? args : args.input;
}
