/** Milliseconds between two looks at the wheel: a deadline fires at most this late. */
const TICK_MS = 5;
/** Slots of the wheel; a deadline further off than `SLOTS * TICK_MS` is passed over until its round comes. */
const SLOTS = 1024;

/** Something that ends at a time unless it is removed before. The two links belong to the wheel. */
export interface DeadlineEntry {
  /** `performance.now()` at which the entry is due, in milliseconds. */
  readonly deadlineAt: number;
  /** Neighbours in the slot; null outside the wheel. */
  wheelPrevious: DeadlineEntry | null;
  wheelNext: DeadlineEntry | null;
  /** Called once, when due. The wheel has let go of the entry by then. */
  onDeadline(): void;
}

/**
 * Deadlines of all calls under one timer: adding and removing cost a few pointer writes, where a timer for
 * every call costs more than the rest of admission. Fires no earlier than due and at most `TICK_MS` late.
 */
export interface DeadlineWheel {
  add(entry: DeadlineEntry): void;
  /** Does nothing for an entry that is not in the wheel. */
  remove(entry: DeadlineEntry): void;
  /** Stops the timer; entries left never fire. */
  close(): void;
}

/** Creates an empty wheel. Its timer runs only while there are entries and never keeps the process alive. */
export function createDeadlineWheel(): DeadlineWheel {
  return new Wheel();
}

/** The head of a slot's ring; never due. */
class Slot implements DeadlineEntry {
  readonly deadlineAt = Number.POSITIVE_INFINITY;
  wheelPrevious: DeadlineEntry = this;
  wheelNext: DeadlineEntry = this;
  onDeadline(): void {}
}

class Wheel implements DeadlineWheel {
  readonly #slots = Array.from({ length: SLOTS }, () => new Slot());
  #size = 0;
  #turned = 0;
  #timer: NodeJS.Timeout | undefined;

  add(entry: DeadlineEntry): void {
    if (this.#timer === undefined) this.#start();
    // A slot that the wheel has just left would be seen again only a whole round later.
    const tick = Math.max(Math.ceil(entry.deadlineAt / TICK_MS), this.#turned + 1);
    const slot = this.#slots[tick % SLOTS] as Slot;
    entry.wheelPrevious = slot.wheelPrevious;
    entry.wheelNext = slot;
    slot.wheelPrevious.wheelNext = entry;
    slot.wheelPrevious = entry;
    this.#size += 1;
  }

  remove(entry: DeadlineEntry): void {
    const { wheelPrevious, wheelNext } = entry;
    if (wheelPrevious === null || wheelNext === null) return;
    wheelPrevious.wheelNext = wheelNext;
    wheelNext.wheelPrevious = wheelPrevious;
    entry.wheelPrevious = null;
    entry.wheelNext = null;
    this.#size -= 1;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #start(): void {
    this.#turned = Math.floor(performance.now() / TICK_MS);
    this.#timer = setInterval(() => this.#turn(), TICK_MS).unref();
  }

  #turn(): void {
    const now = performance.now();
    const tick = Math.floor(now / TICK_MS);
    // After a pause longer than a round every slot is looked at once.
    const first = Math.max(this.#turned + 1, tick - SLOTS + 1);
    this.#turned = tick;
    for (let each = first; each <= tick; each++) this.#fire(this.#slots[each % SLOTS] as Slot, now);
    // Stopped only here, so that a lone caller does not start a timer for every call.
    if (this.#size === 0) this.close();
  }

  #fire(slot: Slot, now: number): void {
    if (slot.wheelNext === slot) return;
    for (const entry of this.#entriesOf(slot)) {
      // One that is due may have taken others out with it.
      if (entry.deadlineAt > now || entry.wheelNext === null) continue;
      this.remove(entry);
      entry.onDeadline();
    }
  }

  #entriesOf(slot: Slot): DeadlineEntry[] {
    const entries: DeadlineEntry[] = [];
    for (let entry: DeadlineEntry | null = slot.wheelNext; entry !== slot && entry !== null; entry = entry.wheelNext) {
      entries.push(entry);
    }
    return entries;
  }
}
