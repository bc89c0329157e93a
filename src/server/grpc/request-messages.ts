import type { ServerHttp2Stream } from "node:http2";
import { promisify } from "node:util";
import { gunzip, inflate } from "node:zlib";
import { bodyTooLarge } from "../errors.ts";
import type { RequestBounds } from "../request-bounds.ts";
import { type Frame, FrameReader, malformed } from "./framing.ts";

const UNPACKERS: ReadonlyMap<string, (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>> =
  new Map([
    ["deflate", promisify(inflate)],
    ["gzip", promisify(gunzip)],
  ]);

/** Encodings of messages that can be read. */
export const ENCODINGS: readonly string[] = ["identity", ...UNPACKERS.keys()];

/** Bytes of arrived messages, and their number, above which the caller is held back. */
const MAX_WAITING_BYTES = 65_536;
const MAX_WAITING_MESSAGES = 256;

/** Reading of the messages of a call. */
export interface ReadOptions {
  readonly bounds: Pick<RequestBounds, "maxBytes" | "field">;
  /** The header `grpc-encoding`, one of `ENCODINGS`. */
  readonly encoding: string | undefined;
  /** Counts bytes of the body as they arrive. What it throws ends the messages. */
  readonly count: (bytes: number) => void;
}

/** The messages of a call in their order, with back-pressure to the caller. */
export class RequestMessages {
  readonly #stream: ServerHttp2Stream;
  readonly #options: ReadOptions;
  readonly #frames: FrameReader;
  readonly #waiting: Frame[] = [];
  #waitingBytes = 0;
  #wake: (() => void) | undefined;
  #isOver = false;
  #fault: unknown;

  constructor(stream: ServerHttp2Stream, options: ReadOptions) {
    this.#stream = stream;
    this.#options = options;
    const { bounds } = options;
    this.#frames = new FrameReader((bytes) => {
      if (bytes > bounds.maxBytes) throw bodyTooLarge(bounds);
    });
    stream.on("data", this.#take).once("end", this.#end);
  }

  /** Resolves with the next message, unpacked; with undefined after the last. Rejects with the fault that ended the messages. */
  async next(): Promise<Buffer | undefined> {
    if (this.#waiting.length === 0 && !this.#isOver) await this.#arrival();
    const frame = this.#waiting.shift();
    if (frame === undefined) {
      if (this.#fault !== undefined) throw this.#fault;
      return undefined;
    }
    this.#waitingBytes -= frame.bytes.length;
    if (this.#stream.isPaused() && !this.#isFull) this.#stream.resume();
    return frame.isCompressed ? this.#unpacked(frame.bytes) : frame.bytes;
  }

  /** Resolves with the message of a call that takes one. */
  async only(): Promise<Buffer> {
    const message = await this.next();
    if (message === undefined) throw malformed("it has no message");
    if ((await this.next()) !== undefined) throw malformed("it has more than one message");
    return message;
  }

  /** Ends the messages. Those that have arrived can still be read. */
  fail(fault: unknown): void {
    if (this.#isOver) return;
    this.#fault = fault;
    this.#close();
  }

  get #isFull(): boolean {
    return this.#waitingBytes > MAX_WAITING_BYTES || this.#waiting.length > MAX_WAITING_MESSAGES;
  }

  #arrival(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  readonly #take = (piece: Buffer): void => {
    try {
      this.#options.count(piece.length);
      for (const frame of this.#frames.read(piece)) {
        this.#waiting.push(frame);
        this.#waitingBytes += frame.bytes.length;
      }
    } catch (error) {
      this.fail(error);
      return;
    }
    if (this.#isFull) this.#stream.pause();
    if (this.#waiting.length > 0) this.#wakeUp();
  };

  readonly #end = (): void => {
    if (this.#frames.isWithinMessage) this.#fault = malformed("its last message is cut off");
    this.#close();
  };

  #close(): void {
    this.#isOver = true;
    // Node keeps a closed stream for a while, and with it everything that listens to it.
    this.#stream.off("data", this.#take).off("end", this.#end);
    this.#wakeUp();
  }

  #wakeUp(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  async #unpacked(bytes: Buffer): Promise<Buffer> {
    const { encoding = "identity", bounds } = this.#options;
    const unpack = UNPACKERS.get(encoding);
    if (unpack === undefined) throw malformed("a message is compressed, and `grpc-encoding` does not say how");
    try {
      return await unpack(bytes, { maxOutputLength: bounds.maxBytes });
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE"
        ? bodyTooLarge(bounds)
        : malformed(`a message is not valid ${encoding}`);
    }
  }
}
