/*
 * The load generator, in a process of its own so that it shares no event loop with what it measures. It lives as long as
 * the run, so that every measurement finds it equally warm.
 */
import { setTimeout as delay } from "node:timers/promises";
import { serveParent } from "./child.ts";
import { startStreams, startUnary } from "./load/grpc.ts";
import { measureH2load } from "./load/h2load.ts";
import { startInsert } from "./load/insert.ts";
import type { Lanes } from "./load/lanes.ts";
import type { LoadPlan, Measured, Source } from "./load/plan.ts";
import { createRecorder, type Recorder } from "./load/recorder.ts";
import { startRest } from "./load/rest.ts";
import { measureWrk } from "./load/wrk.ts";

async function startTogether(sources: readonly Source[], recorder: Recorder): Promise<Lanes> {
  const started = await Promise.all(sources.map((source) => start(source, recorder)));
  return { stop: async () => void (await Promise.all(started.map((lanes) => lanes.stop()))) };
}

function start(source: Source, recorder: Recorder): Lanes | Promise<Lanes> {
  if (source.kind === "together") return startTogether(source.sources, recorder);
  if (source.kind === "unary") return startUnary(source, recorder);
  if (source.kind === "stream") return startStreams(source, recorder);
  return source.kind === "rest" ? startRest(source, recorder) : startInsert(source, recorder);
}

async function measure(plan: LoadPlan): Promise<Measured> {
  const { source, warmUpMs, measureMs, watched } = plan;
  if (source.kind === "h2load") return measureH2load(source, plan);
  if (source.kind === "wrk") return measureWrk(source, plan);
  const recorder = createRecorder(watched);
  const lanes = await start(source, recorder);
  await delay(warmUpMs);
  recorder.begin();
  await delay(measureMs);
  const measured = recorder.finish();
  await lanes.stop();
  return measured;
}

// Ended in order, so that tools that make load end with it and leave no files.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
serveParent(measure);
