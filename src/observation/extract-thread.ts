import { parentPort } from "node:worker_threads";
import { doToEnd } from "../async/work.ts";
import { type ContentJob, digestsOfContent } from "./content-values.ts";

// An uncaught exception ends the thread; its content then counts as too long to be read.
parentPort?.on("message", (job: ContentJob) => parentPort?.postMessage(doToEnd(digestsOfContent(job))));
