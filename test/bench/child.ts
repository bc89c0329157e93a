import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

type Answer = { readonly result: unknown } | { readonly error: string };

/** A process of the benchmark that does one thing at a time when it is asked to. */
export interface Child {
  /** Resolves with what the process made of the question; rejects when it failed or ended. */
  ask<T>(question: unknown): Promise<T>;
  /** Ends it as a crash would: at once, without a chance to clean up. */
  kill(): Promise<void>;
  /** Has it end by itself, with a chance to clean up; as a crash would when it takes more than two seconds. */
  end(): Promise<void>;
}

/** Milliseconds that a process may take to end by itself. */
const END_LIMIT_MS = 2_000;

function answerOf(child: ChildProcess, name: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const onEnd = (code: number | null): void => reject(new Error(`${name} ended with ${code}`));
    child.once("exit", onEnd);
    child.once("message", (answer: Answer) => {
      child.off("exit", onEnd);
      resolve(answer);
    });
  });
}

/** Starts a file of this folder as a process. It ends with this one. */
export function startChild(file: string): Child {
  const path = join(import.meta.dirname, file);
  const child = fork(path, { serialization: "advanced", execArgv: ["--disable-warning=ExperimentalWarning"] });
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    async ask<T>(question: unknown) {
      const answering = answerOf(child, file);
      child.send(question as object);
      const answer = await answering;
      if ("error" in answer) throw new Error(`${file}: ${answer.error}`);
      return answer.result as T;
    },
    async kill() {
      if (hasEnded()) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
    async end() {
      if (hasEnded()) return;
      const ended = once(child, "exit");
      const timer = setTimeout(() => child.kill("SIGKILL"), END_LIMIT_MS);
      if (child.connected) child.disconnect();
      await ended;
      clearTimeout(timer);
    },
  };
}

/** Answers the questions of the process that started this one. */
export function serveParent<Q>(handle: (question: Q) => Promise<unknown>): void {
  process.on("message", (question: Q) => {
    handle(question).then(
      (result) => process.send?.({ result } satisfies Answer),
      (error: Error) => process.send?.({ error: error.stack ?? String(error) } satisfies Answer),
    );
  });
  // Without its parent nobody would ever end it.
  process.once("disconnect", () => process.exit());
}
