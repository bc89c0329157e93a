import { type Holder, type IdleThing, type Portion, SharedPot } from "../../async/shared-pot.ts";
import { Uses } from "../../async/uses.ts";
import { overShare } from "../../errors.ts";
import type { Placeholders } from "../text/placeholders.ts";

/** Milliseconds after which a conversation without requests is forgotten. */
const IDLE_MS = 3_600_000;
const SWEEP_MS = 60_000;
/** Characters in all conversations, of which one workspace alone has half. Includes an overhead for each value and conversation. */
const REMEMBERED = 134_217_728;
const VALUE_OVERHEAD = 200;
const CONVERSATION_OVERHEAD = 4_096;

/** Conversation that is remembered. */
class Conversation implements IdleThing {
  readonly holder: Holder;
  readonly placeholders: Placeholders;
  readonly portion: Portion;
  readonly #onClose: (conversation: Conversation) => void;
  readonly #uses = new Uses();
  #isClosed = false;

  constructor(
    holder: Holder,
    placeholders: Placeholders,
    portion: Portion,
    onClose: (conversation: Conversation) => void,
  ) {
    this.holder = holder;
    this.placeholders = placeholders;
    this.portion = portion;
    this.#onClose = onClose;
  }

  get isIdle(): boolean {
    return this.#uses.isIdle;
  }

  get idleSinceMs(): number {
    return this.#uses.idleSinceMs;
  }

  /** Begins a use. Returns the function that ends it, which may be called repeatedly. */
  use(): () => void {
    return this.#uses.begin(() => {
      if (this.#isClosed && this.isIdle) this.portion.release();
    });
  }

  /** Forgets it. What it holds is released once nothing uses it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.isIdle) this.portion.release();
    this.#onClose(this);
  }
}

/**
 * Placeholders of conversations, kept from one request to the next in this process. Idle conversations are forgotten to make room,
 * and those in use never. A forgotten placeholder stays unchanged in texts and never becomes another value.
 */
export class Conversations {
  readonly #pot: SharedPot;
  readonly #known = new Map<string, Conversation>();
  readonly #sweep: NodeJS.Timeout;

  /** `size`: characters, by default 128 Mi. */
  constructor(size: number = REMEMBERED) {
    this.#pot = new SharedPot({
      name: "proxy_conversations",
      size,
      unit: "characters of conversations with models",
      advice: "have fewer conversations at once",
      retryAfterSeconds: 10,
      refuse: overShare,
    });
    this.#sweep = setInterval(() => this.#forgetIdle(), SWEEP_MS);
    this.#sweep.unref();
  }

  /** Number of conversations. */
  get size(): number {
    return this.#known.size;
  }

  /** Characters of all conversations, with their overhead. */
  get characters(): number {
    return this.#pot.held;
  }

  get(key: string): Placeholders | undefined {
    return this.#known.get(key)?.placeholders;
  }

  /**
   * Remembers a conversation, and keeps it while it is in use: until the returned function is called. Throws OVERLOADED if its
   * workspace or agent would hold more than its share; what was remembered before then stays.
   */
  keep(holder: Holder, key: string, placeholders: Placeholders): () => void {
    const known = this.#known.get(key);
    // The same conversation keeps its uses, so that it stays while another request of it is in flight.
    const conversation =
      known?.placeholders === placeholders
        ? known
        : new Conversation(holder, placeholders, this.#pot.open(holder), (closed) => this.#forget(key, closed));
    const end = conversation.use();
    const { portion } = conversation;
    const missing = Math.max(0, charactersOf(key, placeholders) - portion.amount);
    try {
      this.#pot.makeRoom(holder, missing, () => this.#idle());
      portion.add(missing);
    } catch (error) {
      end();
      throw error;
    }
    if (known !== conversation) void known?.close();
    this.#known.set(key, conversation);
    return end;
  }

  /** Remembers a conversation if there is room. */
  keepIfRoom(holder: Holder, key: string, placeholders: Placeholders): void {
    try {
      this.keep(holder, key, placeholders)();
    } catch {
      // The conversation starts over with its next request.
    }
  }

  /** Forgets all conversations. */
  close(): void {
    clearInterval(this.#sweep);
    for (const conversation of [...this.#known.values()]) void conversation.close();
  }

  #forget(key: string, closed: Conversation): void {
    if (this.#known.get(key) === closed) this.#known.delete(key);
  }

  *#idle(): Generator<Conversation> {
    for (const conversation of this.#known.values()) if (conversation.isIdle) yield conversation;
  }

  #forgetIdle(): void {
    const before = performance.now() - IDLE_MS;
    for (const conversation of this.#idle()) if (conversation.idleSinceMs <= before) void conversation.close();
  }
}

function charactersOf(key: string, { size, textLength }: Placeholders): number {
  return CONVERSATION_OVERHEAD + key.length + size * VALUE_OVERHEAD + textLength;
}
