/*
 * Measures the turns of the event loop of a process by the processor time of its thread. Loaded before the program by
 * `NODE_OPTIONS=--import=…`; `TURNS_SOCKET` names the socket on which it tells the longest turn since it was asked before.
 */
import { createServer } from "node:net";
import { isMainThread } from "node:worker_threads";
import { threadMs } from "../support/thread-time.ts";

const { TURNS_SOCKET } = process.env;
let longestMs = 0;
let startedAt = 0;
let usedMs = 0;

function begin(): void {
  startedAt = performance.now();
  usedMs = threadMs();
}

/** Ends a turn and begins the next. An immediate that nothing waits for runs once in each turn and does not wake an idle loop. */
function turn(): void {
  // The kernel adds up processor time in ticks of some milliseconds, so that a short turn may seem to have a whole one.
  longestMs = Math.max(longestMs, Math.min(threadMs() - usedMs, performance.now() - startedAt));
  begin();
  setImmediate(turn).unref();
}

if (TURNS_SOCKET !== undefined && isMainThread) {
  createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(JSON.stringify({ longestMs, rssBytes: process.memoryUsage.rss() }));
    longestMs = 0;
  })
    .listen(TURNS_SOCKET)
    .unref();
  begin();
  setImmediate(turn).unref();
}
