/**
 * Keeps the process awake while the database makes durable what one caller alone waits for. To fall asleep and to be
 * woken costs a fifth of such a decision where a processor that has nothing to do is halted. Linux polls its network
 * devices (`net.core.busy_poll`) and KVM its guests (`halt_poll_ns`) for the same reason.
 */
export interface BusyPoll {
  /** A run begins with one item. */
  begin(): void;
  /** Something joins the run. */
  join(): void;
  /** The run is over. */
  end(): void;
}

/** Runs of one item each, one after the other, after which the next is taken for such a one too. */
export const RUNS_ALONE = 8;

/** What a busy poll takes from the platform. */
export interface BusyPollPlatform {
  /** Milliseconds. */
  now(): number;
  /** Calls in the next turn of the event loop, which then does not wait for anything. */
  nextTurn(poll: () => void): void;
}

const PLATFORM: BusyPollPlatform = { now: () => performance.now(), nextTurn: (poll) => void setImmediate(poll) };

/**
 * Creates a poll that spends `mostMs` milliseconds of processor time on a run at most; 0 never polls. It does nothing
 * unless the runs before were alone and took less than that: others are served sooner by a process that sleeps, and a
 * slow database is not worth the time.
 */
export function createBusyPoll(mostMs: number, { now, nextTurn }: BusyPollPlatform = PLATFORM): BusyPoll {
  let runsAlone = 0;
  let items = 0;
  let beganAt = 0;
  let isPolling = false;

  const isShort = (): boolean => now() - beganAt < mostMs;
  const poll = (): void => {
    isPolling = items === 1 && isShort();
    if (isPolling) nextTurn(poll);
  };

  return {
    begin() {
      items = 1;
      beganAt = now();
      // One that the run before left over goes on for this one.
      if (isPolling || runsAlone < RUNS_ALONE) return;
      isPolling = true;
      nextTurn(poll);
    },
    join() {
      items += 1;
    },
    end() {
      runsAlone = items === 1 && isShort() ? runsAlone + 1 : 0;
      items = 0;
    },
  };
}
