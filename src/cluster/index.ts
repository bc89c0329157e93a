export { scavengesAlone, setCollector } from "./collector.ts";
export { serveAlone } from "./serve-alone.ts";
export { serveAsWorker } from "./serve-as-worker.ts";
export { serveWithWorkers } from "./serve-with-workers.ts";
export type { Serving } from "./serving.ts";
export { listenForStop } from "./stop-signal.ts";
