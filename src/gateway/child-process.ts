import { type ChildProcess as Spawned, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import type { Portion } from "../async/shared-pot.ts";
import type { RpcMessage } from "./messages.ts";
import { MessageTooLarge, readMessage } from "./reading.ts";

/** Program to start, and the text that it reads from its descriptor 3 before the command begins. */
export interface ChildLaunch {
  readonly program: string;
  readonly args: readonly string[];
  /** Working directory: the child's home. */
  readonly cwd: string;
  /** Account of the child; undefined for the one of this process. */
  readonly account: { readonly uid: number; readonly gid: number } | undefined;
  /** Environment and settings. They are not arguments, which every process of the host can read. */
  readonly setup: string;
  /** Called with the process before `setup` is sent, so before the command runs. */
  readonly onSpawned: (pid: number) => void;
}

/** Events of a child. */
export interface ChildEvents {
  readonly onMessage: (message: RpcMessage) => void;
  /** Portion of the bytes that are being read. A child that would make it too large is ended. */
  readonly held: Portion;
  /** Called once, when the child has ended. `why` completes "MCP server `x` …". */
  readonly onEnd: (why: string) => void;
}

/** Environment of the programs that prepare a command. The command's own environment is in `setup`. */
const PREPARING = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };
/** Maximum bytes of one message of a child. */
const MAX_MESSAGE_BYTES = 16_777_216;
/** Maximum bytes of other text between two messages. */
const MAX_GARBAGE_BYTES = 1_048_576;
/** Maximum characters of a child's standard error that are kept. */
const MAX_STDERR = 2_000;
/** Milliseconds that a child gets to end: after the end of its input, and then after SIGTERM. */
const END_MS = 2_000;
/**
 * Milliseconds between the end of a child and that of its output. A process that it left behind may keep the output open for ever.
 */
const REST_MS = 250;
const NEWLINE = 10;
/** Exit codes of shells for a command that is not found or may not be run. */
const NOT_STARTED = new Set([126, 127]);

/** A child process that speaks JSON-RPC over its standard streams, one message a line. */
export class ChildProcess {
  readonly #child: Spawned;
  readonly #events: ChildEvents;
  readonly #ended: Promise<void>;
  /** Resolves once nothing more is read from the child. */
  readonly #reading: Promise<void>;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #garbage = 0;
  #stderr = "";
  #hasSpoken = false;
  /** Reason for which this process ends the child. */
  #closing: string | undefined;
  #closed: Promise<void> | undefined;

  private constructor(child: Spawned, events: ChildEvents) {
    this.#child = child;
    this.#events = events;
    const { stdout, stderr, stdin } = child as { stdout: Readable; stderr: Readable; stdin: Writable };
    this.#reading = this.#readAll(stdout);
    stdout.once("end", () => void this.#outlivesOutput());
    stderr.on("data", (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString("utf8")).slice(-MAX_STDERR);
    });
    // A child that has ended reads nothing; its end is reported below.
    for (const stream of [stdin, stdout, stderr]) stream.on("error", () => undefined);
    this.#ended = this.#whenEnded();
  }

  /** Starts a child. Rejects if its program cannot be started. */
  static async start(launch: ChildLaunch, events: ChildEvents): Promise<ChildProcess> {
    const { program, args, cwd, account, setup, onSpawned } = launch;
    const child = spawn(program, [...args], {
      cwd,
      env: PREPARING,
      stdio: ["pipe", "pipe", "pipe", "pipe"],
      // A process group of its own, which can be ended as a whole.
      detached: true,
      ...account,
    });
    await once(child, "spawn");
    const process = new ChildProcess(child, events);
    const control = child.stdio[3] as Writable;
    control.on("error", () => undefined);
    try {
      onSpawned(child.pid as number);
    } catch (error) {
      await process.close("could not be limited");
      throw error;
    }
    control.end(setup);
    return process;
  }

  /** Last part of the child's standard error. */
  get stderr(): string {
    return this.#stderr;
  }

  /** Sends a message, and waits while the child does not read. Rejects once the child has ended. */
  async send(message: RpcMessage): Promise<void> {
    const stdin = this.#child.stdin as Writable;
    if (this.#closing !== undefined || !stdin.writable) throw new Error("the child has ended");
    if (stdin.write(`${JSON.stringify(message)}\n`)) return;
    const left = new AbortController();
    const drained = once(stdin, "drain", { signal: left.signal }).catch(() => undefined);
    await Promise.race([drained, this.#ended]);
    left.abort();
  }

  /** Ends the child and its process group within a few seconds, by force if necessary. MUST NOT reject. */
  close(why: string): Promise<void> {
    this.#closed ??= this.#close(why);
    return this.#closed;
  }

  async #close(why: string): Promise<void> {
    this.#closing = why;
    this.#child.stdin?.end();
    if (await this.#endsWithin(END_MS)) return;
    this.#kill("SIGTERM");
    if (await this.#endsWithin(END_MS)) return;
    this.#kill("SIGKILL");
    await this.#ended;
  }

  async #endsWithin(ms: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), ms);
    });
    const isEnded = await Promise.race([this.#ended.then(() => true), late]);
    clearTimeout(timer);
    return isEnded;
  }

  /** Signals the process group of the child. */
  #kill(signal: NodeJS.Signals): void {
    try {
      process.kill(-(this.#child.pid as number), signal);
    } catch {
      // Every process of the group has ended.
    }
  }

  /** Ends a child that runs on without its output. One that ends closes its output first. */
  async #outlivesOutput(): Promise<void> {
    if (!(await this.#endsWithin(REST_MS))) await this.close("closed its output");
  }

  async #whenEnded(): Promise<void> {
    const closed = once(this.#child, "close");
    const [code, signal] = (await once(this.#child, "exit")) as [number | null, NodeJS.Signals | null];
    let timer: NodeJS.Timeout | undefined;
    const rest = new Promise((resolve) => {
      timer = setTimeout(resolve, REST_MS);
    });
    await Promise.race([closed, rest]);
    clearTimeout(timer);
    // The rest of its process group.
    this.#kill("SIGKILL");
    for (const stream of this.#child.stdio) stream?.destroy();
    await this.#reading;
    this.#events.onEnd(this.#reason(code, signal));
  }

  #reason(code: number | null, signal: NodeJS.Signals | null): string {
    if (this.#closing !== undefined) return this.#closing;
    if (!this.#hasSpoken && code !== null && NOT_STARTED.has(code)) {
      return "cannot be started: its command is not found, or may not be read by the account that runs it";
    }
    return `ended before it answered (${signal ?? `code ${code}`})`;
  }

  async #readAll(stdout: Readable): Promise<void> {
    try {
      for await (const chunk of stdout) await this.#read(chunk as Buffer);
    } catch {
      // The output was given up.
    }
  }

  async #read(chunk: Buffer): Promise<void> {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      if (this.#closing !== undefined) return;
      this.#chunks.push(chunk.subarray(start, end));
      const line = Buffer.concat(this.#chunks).toString("utf8");
      this.#chunks = [];
      this.#bytes = 0;
      start = end + 1;
      await this.#take(line);
    }
    this.#chunks.push(chunk.subarray(start));
    this.#bytes += chunk.length - start;
    this.#hold();
    if (this.#bytes <= MAX_MESSAGE_BYTES) return;
    void this.close(`sent a line of more than ${MAX_MESSAGE_BYTES} bytes`);
    this.#chunks = [];
  }

  /** Counts the bytes of the line that is being read. */
  #hold(): void {
    const { held } = this.#events;
    try {
      if (this.#bytes < held.amount) held.empty();
      held.add(this.#bytes - held.amount);
    } catch {
      this.#chunks = [];
      void this.close("sent more than its workspace or agent may let a server say at the moment");
    }
  }

  async #take(line: string): Promise<void> {
    const message = await readMessage(line).catch((error: unknown) => {
      if (!(error instanceof MessageTooLarge)) throw error;
      void this.close(`sent a message of ${error.excess}`);
    });
    // Meanwhile the child may have been closed, which drops what it still says.
    if (this.#closing !== undefined) return;
    if (message !== undefined) {
      this.#garbage = 0;
      this.#hasSpoken = true;
      this.#events.onMessage(message);
      return;
    }
    this.#garbage += line.length + 1;
    if (this.#garbage > MAX_GARBAGE_BYTES) void this.close("prints text that is not JSON-RPC");
  }
}
