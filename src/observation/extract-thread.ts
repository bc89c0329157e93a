import { parentPort } from "node:worker_threads";
import { type ContentDigests, type ContentJob, digestsOfContent } from "./content-values.ts";

/** Runs work to its end: this thread does nothing else. */
function digestsOf(job: ContentJob): ContentDigests {
  const work = digestsOfContent(job);
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

// An uncaught exception ends the thread; its content then counts as too long to be read.
parentPort?.on("message", (job: ContentJob) => parentPort?.postMessage(digestsOf(job)));
