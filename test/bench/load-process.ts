/*
 * The load generator, in a process of its own so that it shares no event loop with what it measures. It lives as long as
 * the run, so that every measurement finds it equally warm.
 */
import { setTimeout as delay } from "node:timers/promises";
import { serveParent } from "./child.ts";
import { type Lanes, startRest, startStreams, startUnary } from "./clients.ts";
import { cpuSeconds, cpuSecondsWithChildren } from "./cpu.ts";
import { startInsert } from "./insert.ts";
import type { LoadPlan, Measured, Run, Source, Watched } from "./load.ts";
import { findTools, runH2load, runWrk } from "./tools.ts";

const tools = findTools();

/** Seconds of processor time used so far; undefined where the system does not tell. */
const usageOf = ({ service, database }: Watched) => ({
  service: service === undefined ? undefined : cpuSeconds(service),
  database: database === undefined ? undefined : cpuSecondsWithChildren(database),
  load: cpuSecondsWithChildren(process.pid),
});
type Usage = ReturnType<typeof usageOf>;

function measuredFrom({ replies, ...run }: Run, before: Usage, after: Usage): Measured {
  const cost = (part: keyof Usage): number | undefined => {
    const [from, to] = [before[part], after[part]];
    return from === undefined || to === undefined ? undefined : ((to - from) * 1e6) / replies;
  };
  return { ...run, serviceCpu: cost("service"), databaseCpu: cost("database"), loadCpu: cost("load") };
}

function toolFor(source: Source): ((ms: number) => Promise<Run>) | undefined {
  if (source.kind === "unary" && tools.h2load) return (ms) => runH2load(source, ms);
  return source.kind === "rest" && tools.wrk ? (ms) => runWrk(source, ms) : undefined;
}

/** Measures a load of a tool, whose warm-up is a run of its own. */
async function measureTool(run: (ms: number) => Promise<Run>, plan: LoadPlan): Promise<Measured> {
  await run(plan.warmUpMs);
  const before = usageOf(plan.watched);
  const done = await run(plan.measureMs);
  return measuredFrom(done, before, usageOf(plan.watched));
}

function start(source: Source): Lanes | Promise<Lanes> {
  if (source.kind === "unary") return startUnary(source);
  if (source.kind === "stream") return startStreams(source);
  return source.kind === "rest" ? startRest(source) : startInsert(source);
}

async function measureLanes({ source, warmUpMs, measureMs, watched }: LoadPlan): Promise<Measured> {
  const lanes = await start(source);
  await delay(warmUpMs);
  const before = usageOf(watched);
  lanes.recorder.begin();
  await delay(measureMs);
  const run = lanes.recorder.finish();
  const after = usageOf(watched);
  await lanes.stop();
  return measuredFrom(run, before, after);
}

// Ended in order, so that tools end with it and leave no files.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
serveParent((plan: LoadPlan) => {
  const run = toolFor(plan.source);
  return run === undefined ? measureLanes(plan) : measureTool(run, plan);
});
