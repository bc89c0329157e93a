/*
 * The load generator, in a process of its own so that it shares no event loop with what it measures. It lives as long as
 * the run, so that every measurement finds it equally warm.
 */
import { setTimeout as delay } from "node:timers/promises";
import { serveParent } from "./child.ts";
import { startStreams, startUnary } from "./load/grpc.ts";
import { startInsert } from "./load/insert.ts";
import type { Lanes } from "./load/lanes.ts";
import type { LoadPlan, Measured, Source } from "./load/plan.ts";
import { createRecorder, type Recorder } from "./load/recorder.ts";
import { startRest } from "./load/rest.ts";

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

async function measure({ source, warmUpMs, measureMs, watched }: LoadPlan): Promise<Measured> {
  const recorder = createRecorder(watched);
  const lanes = await start(source, recorder);
  await delay(warmUpMs);
  recorder.begin();
  await delay(measureMs);
  const measured = recorder.finish();
  await lanes.stop();
  return measured;
}

serveParent(measure);
