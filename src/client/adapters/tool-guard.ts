import type { JsonObject } from "@bufbuild/protobuf";
import { ToolService } from "../../../gen/agentcontrol/v1/tool_service_pb.js";
import { AgentBlockedError, AgentStoppedError } from "../blocked-error.ts";
import type { ControlPlane } from "../control-plane.ts";
import { ASKS_ONLY, type GuardCallOptions, type GuardOptions, type OutcomeOptions } from "../guard-options.ts";

/** Arguments of a tool call. */
export type ToolArguments = Readonly<Record<string, unknown>>;

/** Description of a tool by its framework. */
export interface GuardedTool {
  readonly name: string;
  readonly description?: string | undefined;
  /** Returns the JSON Schema of the arguments. If it is undefined, nothing is registered. */
  readonly inputSchema: () => unknown;
}

/** Options of every adapter, for the tools of one agent. */
export interface ToolGuardOptions
  extends Pick<
      GuardOptions<[ToolArguments]>,
      | ("agentId" | "sessionId" | "onBehalfOf" | "grantId" | "intentContractId" | "metadata" | "escalationTimeout")
      | ("escalationPollInterval" | "onUnreachable" | "onUnchecked" | "timeoutMs" | "abortWhenRevoked" | "onDecision")
    >,
    Pick<OutcomeOptions<unknown>, "report"> {
  readonly controlPlane: ControlPlane;
  /**
   * Registers the schema of each tool before its first call, so that mandates can name its arguments. Needs a key of role
   * `operator` or `admin`. Default: nothing is registered.
   */
  readonly registerWith?: ControlPlane | undefined;
  /** Action type of a call. Default: the tool's name. */
  readonly actionType?: ((tool: string) => string) | undefined;
  /**
   * Returns the amount that a call of a tool came to, by the result of the tool: budgets capture it in place of what was reserved. Default:
   * what was reserved.
   */
  readonly amount?: ((result: unknown, tool: string) => number | undefined) | undefined;
  /** True runs a tool with the arguments that a person approved instead of its own. Default false. */
  readonly acceptEdits?: boolean | undefined;
  /**
   * Behaviour for a refused call. `result` (default): the tool's result tells the model why its call did not run. `throw`: the
   * call rejects with the `AgentBlockedError`. An `AgentStoppedError` is always thrown.
   */
  readonly whenRefused?: "result" | "throw" | undefined;
}

/** Options of single calls, with the test for a result that tells of a failure. */
export type ToolCallOptions = GuardCallOptions & Pick<OutcomeOptions<unknown>, "isFailure">;

/** Runs a tool, once, if the control plane allows it. */
export type RunTool<Result> = (args: ToolArguments, signal: AbortSignal) => Result | Promise<Result>;

/** Guards the calls of a set of tools. It remembers which tools it has registered. */
export class ToolGuard {
  readonly #options: ToolGuardOptions;
  readonly #registered = new Map<string, Promise<unknown>>();

  constructor(options: ToolGuardOptions) {
    this.#options = options;
  }

  actionTypeOf(tool: string): string {
    return this.#options.actionType?.(tool) ?? tool;
  }

  /** Registers a tool's schema once; after a failure the next call tries again. Rejects with the control plane's error. */
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
   * Decides a tool call, waits for a person if it escalates, and runs it. `refused` creates the tool's result from the text for
   * the model. Rejects with `AgentStoppedError`, `ControlPlaneRequestError`, errors of the tool, and `AgentBlockedError` if
   * `whenRefused` is `throw`.
   */
  async call<Result, Refused>(
    tool: GuardedTool,
    args: ToolArguments,
    run: RunTool<Result>,
    refused: (forModel: string, error: AgentBlockedError) => Refused,
    { isFailure, ...given }: ToolCallOptions = {},
  ): Promise<Result | Refused> {
    const { amount } = this.#options;
    const amountOf = amount === undefined ? undefined : (result: unknown) => amount(result, tool.name);
    return await this.#guarded(tool, args, run, refused, given, { isFailure, amount: amountOf });
  }

  /**
   * Decides a tool call, and waits for a person if it escalates, for one who runs it later by `call` with the same `requestId`. Resolves
   * with `approved`, or with `unchecked` if no decision was made.
   */
  async ask<Refused>(
    tool: GuardedTool,
    args: ToolArguments,
    refused: (forModel: string, error: AgentBlockedError) => Refused,
    requestId: string,
  ): Promise<"approved" | "unchecked" | Refused> {
    let approved: "approved" | "unchecked" = "approved";
    const onUnchecked: ToolGuardOptions["onUnchecked"] = (fault, action) => {
      approved = "unchecked";
      return this.#options.onUnchecked?.(fault, action);
    };
    const asking = { [ASKS_ONLY]: true, onUnchecked };
    return await this.#guarded(tool, args, () => approved, refused, { requestId }, asking);
  }

  async #guarded<Result, Refused>(
    tool: GuardedTool,
    args: ToolArguments,
    run: RunTool<Result>,
    refused: (forModel: string, error: AgentBlockedError) => Refused,
    given: GuardCallOptions,
    more: OutcomeOptions<unknown> & Pick<ToolGuardOptions, "onUnchecked">,
  ): Promise<Result | Refused> {
    const {
      controlPlane,
      registerWith,
      actionType,
      acceptEdits,
      amount,
      whenRefused = "result",
      ...guarding
    } = this.#options;
    await this.register(tool);
    const action = {
      ...guarding,
      ...more,
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

/** Returns a tool's input as arguments: an object unchanged, any other value as `input`. */
export function argumentsFrom(input: unknown): ToolArguments {
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  return isObject ? (input as ToolArguments) : { input };
}

/** Reverses `argumentsFrom` for a tool whose input is not an object. */
export function inputFrom(args: ToolArguments, input: unknown): unknown {
  return argumentsFrom(input) === input ? args : args.input;
}
