import { constants } from "node:os";

/**
 * Milliseconds in which a signal counts once: Ctrl-C reaches every process of a terminal, and npm sends it on to a process
 * that has it already.
 */
const ECHO_MS = 500;

/**
 * Resolves with the first of the signals. From then on another one ends the process at once, with the code that a shell gives
 * to a process that was killed by it.
 */
export function listenForStop(signals: readonly NodeJS.Signals[]): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let stoppedAt: number | undefined;
    const onSignal = (signal: NodeJS.Signals): void => {
      stoppedAt ??= performance.now();
      if (performance.now() - stoppedAt > ECHO_MS) process.exit(128 + constants.signals[signal]);
      resolve(signal);
    };
    for (const signal of signals) process.on(signal, onSignal);
  });
}
