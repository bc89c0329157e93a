import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { promisify } from "node:util";
import {
  AgentBlockedError,
  AgentStoppedError,
  AlreadyClaimedError,
  type ControlPlane,
  ControlPlaneRequestError,
  EscalationTimeoutError,
  type GuardCallOptions,
  type InterceptAction,
  PendingApproval,
  type RequestErrorCode,
} from "../../../src/client/index.ts";
import { PYTHON } from "../../support/debian.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "..", "..", "..");
/** Debian's packages that the Python package is built, installed and run with. */
export const PYTHON_PACKAGES = [
  "libprotobuf-dev",
  "protobuf-compiler",
  "protobuf-compiler-grpc",
  "python3-grpcio",
  "python3-pip",
  "python3-protobuf",
  "python3-setuptools",
  "python3-wheel",
];

/** A Python with the package installed from its wheel, and what Debian has beside it. */
export interface PythonEnvironment {
  readonly python: string;
  /** Files that the wheel was built from, the generated ones included. */
  readonly staged: string;
  readonly wheel: string;
  remove(): Promise<void>;
}

/** Builds the wheel and installs it, without a network. */
export async function installPythonPackage(): Promise<PythonEnvironment> {
  const folder = await mkdtemp(join(tmpdir(), "acp-python-"));
  const env = { ...process.env, NODE: process.execPath, PIP_NO_INDEX: "1", PIP_DISABLE_PIP_VERSION_CHECK: "1" };
  const { stdout } = await run(PYTHON, [join(ROOT, "src/client/python/build.py"), folder], { env });
  const wheel = stdout.trim().split("\n").at(-1) ?? "";
  const home = join(folder, "venv");
  // The host's pip installs into it: bringing a pip of its own takes a venv ten seconds.
  await run(PYTHON, ["-m", "venv", "--system-site-packages", "--without-pip", home]);
  const python = join(home, "bin", "python");
  await run(PYTHON, ["-m", "pip", "--python", python, "install", "--quiet", wheel], { env });
  return {
    python,
    staged: join(folder, "staged", "package"),
    wheel,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** The library in Python, as far as the scenarios use it. */
export interface PythonLibrary {
  connect(grpcUrl: string, apiKey: string): Pick<ControlPlane, "guard" | "close">;
  close(): void;
}

// biome-ignore lint/suspicious/noExplicitAny: messages of many shapes, read by name
type Json = any;

/** A call that Python makes. */
interface Call {
  readonly args: Json;
  readonly options: Json;
  readonly run: (args: Json) => Promise<unknown>;
  readonly settle: (line: Json) => void;
}

/** Starts Python with either of its clients. */
export function startPythonLibrary({ python }: PythonEnvironment, client: "blocking" | "asyncio"): PythonLibrary {
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(
    python,
    [join(import.meta.dirname, "driver.py"), client],
    // gRPC reports each failed handshake by itself too.
    { stdio: ["pipe", "pipe", process.env.CI ? "ignore" : "inherit"], env: { ...process.env, GRPC_VERBOSITY: "NONE" } },
  );
  const calls = new Map<number, Call>();
  let last = 0;
  const send = (line: Json): void => void child.stdin.write(`${JSON.stringify(line)}\n`);
  const answers: Readonly<Record<string, (call: Call, value: Json) => unknown>> = {
    arguments: ({ options, args }) => options.toArguments(args),
    run: ({ run: fn }, value) => fn(value),
    unchecked: ({ options }, value) => options.onUnchecked?.(requestErrorOf(value), {} as InterceptAction),
  };
  createInterface(child.stdout).on("line", async (text) => {
    const line = JSON.parse(text) as Json;
    const call = calls.get(line.done ?? line.call);
    if (call === undefined) return;
    if (line.done === undefined)
      send({ answer: line.ask, value: (await answers[line.what]?.(call, line.value)) ?? null });
    else call.settle(line);
  });
  return {
    connect(url, key) {
      const guarded = (fn: Json, options: Json, given: GuardCallOptions) => {
        const start = (args: Json): Promise<unknown> =>
          new Promise((resolve, reject) => {
            const id = ++last;
            const { signal } = given;
            const settle = ({ result, error }: Json): void => {
              calls.delete(id);
              if (error !== undefined) reject(errorOf(error, signal?.reason));
              else resolve(result.pending === undefined ? result.value : pendingOf(result.pending));
            };
            calls.set(id, { args, options, run: fn, settle });
            send({
              call: id,
              url,
              key,
              arguments: args,
              cancelled: signal?.aborted ?? false,
              options: guardOptionsOf(options),
              call_options: callOptionsOf(given),
            });
            signal?.addEventListener("abort", () => send({ cancel: id }), { once: true });
          });
        return Object.assign(start, {
          with: (more: GuardCallOptions) => guarded(fn, options, { ...given, ...more }),
        });
      };
      return { guard: ((fn: Json, options: Json) => guarded(fn, options, {})) as Json, close: () => undefined };
    },
    close: () => void child.kill(),
  };
}

/** Leaves out what is not given. */
const givenOf = (members: object): object =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));

const guardOptionsOf = (options: Json): object =>
  givenOf({
    agent_id: options.agentId,
    action_type: options.actionType,
    tool: options.tool,
    wait_on_escalate: options.waitOnEscalate,
    accept_edits: options.acceptEdits,
    escalation_timeout: options.escalationTimeout,
    escalation_poll_interval: options.escalationPollInterval,
    on_unreachable: options.onUnreachable,
    timeout: options.timeoutMs === undefined ? undefined : options.timeoutMs / 1000,
  });

const callOptionsOf = ({ sessionId, onBehalfOf, escalationId, requestId }: GuardCallOptions): object =>
  givenOf({ session_id: sessionId, on_behalf_of: onBehalfOf, escalation_id: escalationId, request_id: requestId });

/** Times that Python sent as texts. */
const timeOf = (text: string | null | undefined): Date | null => (typeof text === "string" ? new Date(text) : null);

const reasonsOf = (reasons: readonly Json[] | undefined): Json =>
  reasons?.map((reason) => ({ ...reason, resetsAt: timeOf(reason.resets_at) }));

const pendingOf = (pending: Json): PendingApproval =>
  new PendingApproval(
    {
      ...pending,
      decisionId: pending.decision_id,
      escalationId: pending.escalation_id,
      reasons: reasonsOf(pending.reasons),
    },
    pending.escalation_id,
    pending.action,
  );

const requestErrorOf = ({ code, message, ...details }: Json): ControlPlaneRequestError =>
  new ControlPlaneRequestError(code as RequestErrorCode, message, details);

/** Returns the error of this language that one of Python stands for. */
function errorOf(error: Json, cancelled: unknown): unknown {
  const { name, message, decision, cause } = error;
  const details = {
    ...error,
    escalationId: error.escalation_id,
    decisionId: error.decision_id,
    forModel: error.for_model,
    reasons: reasonsOf(error.reasons),
    retryAfter: timeOf(error.retry_after),
    cause: cause === null || cause === undefined ? undefined : requestErrorOf(cause),
  };
  const errors: Readonly<Record<string, () => unknown>> = {
    AgentBlockedError: () => new AgentBlockedError(message, decision, details),
    AlreadyClaimedError: () => new AlreadyClaimedError("pay", error.decision_id, details.cause),
    EscalationTimeoutError: () => new EscalationTimeoutError(error.escalation_id, error.timeout, details),
    AgentStoppedError: () =>
      new AgentStoppedError(error.agent_id, {
        change: error.change,
        sessionId: error.session_id,
        revocationId: error.revocation_id,
      }),
    ControlPlaneRequestError: () => requestErrorOf(error),
    CancelledError: () => cancelled,
    CallCancelledError: () => cancelled,
    TypeError: () => new TypeError(message),
    ValueError: () => new TypeError(message),
  };
  return errors[name]?.() ?? new Error(`${name}: ${message}`);
}
