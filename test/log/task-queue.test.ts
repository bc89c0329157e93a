import { expect } from "chai";
import {
  type BatchRunner,
  createTaskQueue,
  MAX_BATCH,
  type TaskQueue,
  type TaskQueueOptions,
} from "../../src/log/task-queue.ts";
import { seededBelow } from "../support/seeded-below.ts";

/** Schedules at random that the queue is put through. */
const SCHEDULES = 60;

/** How something was started; a task runs by itself. */
type Way = "begin" | "follow" | "again" | "task";

/** A batch that is under way, or a run of what was given back. */
interface Open {
  readonly way: Way;
  readonly items: readonly number[];
  /** Ends it, giving some of its items back. */
  end(left?: readonly number[]): void;
}

/** A queue over a runner whose batches are over when the test says so. */
interface Stage {
  readonly queue: TaskQueue<number>;
  /** Everything that was started, in order. */
  readonly started: (readonly [Way, ...number[]])[];
  /** What is under way, oldest first. */
  readonly open: Open[];
  /** Whether a batch may follow another; asked each time. */
  mayFollow: () => boolean;
  /** Adds the numbers from `first` to `last`. */
  add(first: number, last?: number): void;
  /** Runs a task that ends when the test says so. */
  task(number: number): Promise<void>;
}

function openStage(options: TaskQueueOptions = {}): Stage {
  const open: Open[] = [];
  const started: Stage["started"] = [];
  const start = (way: Way, items: readonly number[]): Promise<readonly number[]> =>
    new Promise((resolve) => {
      started.push([way, ...items]);
      const one: Open = {
        ...{ way, items },
        end(left = []) {
          open.splice(open.indexOf(one), 1);
          resolve(left);
        },
      };
      open.push(one);
    });
  const runner: BatchRunner<number> = {
    begin: async (items) => ({ over: start("begin", items) }),
    follow: (items) => (stage.mayFollow() ? start("follow", items) : undefined),
    again: async (items) => void (await start("again", items)),
  };
  const queue = createTaskQueue(runner, options);
  const stage: Stage = {
    ...{ queue, started, open, mayFollow: () => true },
    add(first, last = first) {
      for (let item = first; item <= last; item++) queue.add(item);
    },
    task: (number) => queue.run(async () => void (await start("task", [number]))),
  };
  return stage;
}

const range = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

/** Lets the queue do all that it can do by itself. */
async function turn(): Promise<void> {
  for (let count = 0; count < 4; count++) await new Promise((resolve) => setImmediate(resolve));
}

describe("a task queue", () => {
  let stage: Stage;
  beforeEach(() => {
    stage = openStage();
  });

  /** Acts, lets the queue do all that it can and gives what it started. */
  async function startedBy(act: () => void): Promise<Stage["started"]> {
    const before = stage.started.length;
    act();
    await turn();
    return stage.started.slice(before);
  }
  const end = (index = 0, left?: readonly number[]) => stage.open[index]?.end(left);

  it("gathers while a batch is under way, and follows it as soon as as many wait.", async () => {
    expect(await startedBy(() => stage.add(1, 8))).to.deep.equal([["begin", ...range(1, 8)]]);
    expect(await startedBy(() => stage.add(9, 15))).to.deep.equal([]);
    expect(stage.queue.waiting).to.equal(7);
    expect(await startedBy(() => stage.add(16))).to.deep.equal([["follow", ...range(9, 16)]]);
    expect(stage.queue.waiting).to.equal(0);
  });

  it("begins with what has gathered, however little, when the batch under way is over.", async () => {
    await startedBy(() => stage.add(1, 8));
    await startedBy(() => stage.add(9));
    expect(await startedBy(end)).to.deep.equal([["begin", 9]]);
  });

  it("tells a busy poll when a run begins, what joins it and when nothing is left.", async () => {
    const told: string[] = [];
    const tell = (word: string) => () => void told.push(word);
    stage = openStage({ busyPoll: { begin: tell("begin"), join: tell("join"), end: tell("end") } });
    await startedBy(() => stage.add(1));
    expect(told.splice(0)).to.deep.equal(["begin"]);
    await startedBy(() => stage.add(2));
    await startedBy(end);
    expect(told.splice(0)).to.deep.equal(["join"]);
    await startedBy(end);
    expect(told.splice(0)).to.deep.equal(["end"]);
    await startedBy(() => void stage.task(3));
    await startedBy(end);
    expect(told).to.deep.equal(["begin", "end"]);
  });

  it("has no more than two batches under way.", async () => {
    await startedBy(() => stage.add(1, 8));
    await startedBy(() => stage.add(9, 16));
    expect(await startedBy(() => stage.add(17, 100))).to.deep.equal([]);
    expect(stage.open).to.have.length(2);
    expect(await startedBy(end)).to.have.length(1);
    expect(stage.open).to.have.length(2);
  });

  it("has as many under way as it may now, each with its part of what is open.", async () => {
    let depth = 4;
    stage = openStage({ depth: () => depth });
    const sizes = (batches: Stage["started"]) => batches.map(([way, ...items]) => [way, items.length]);
    expect(sizes(await startedBy(() => stage.add(1, 400)))).to.deep.equal([
      ["begin", 100],
      ["follow", 100],
      ["follow", 100],
      ["follow", 100],
    ]);
    await startedBy(() => stage.add(401, 499));
    // As many as the batches under way have on average, and not as many as they have together.
    expect(await startedBy(end)).to.deep.equal([]);
    expect(sizes(await startedBy(() => stage.add(500)))).to.deep.equal([["follow", 100]]);
    depth = 2;
    await startedBy(() => stage.add(501, 700));
    for (let count = 0; count < 2; count++) expect(await startedBy(end)).to.deep.equal([]);
    expect(await startedBy(end)).to.have.length(1);
  });

  it("has two under way however many it may, while more would be small.", async () => {
    stage = openStage({ depth: () => 4 });
    const sizes = (batches: Stage["started"]) => batches.map(([, ...items]) => items.length);
    expect(sizes(await startedBy(() => stage.add(1, 128)))).to.deep.equal([64, 64]);
    await startedBy(() => stage.add(129, 256));
    expect(sizes(await startedBy(end))).to.deep.equal([64, 64]);
  });

  it("takes half of what is open, waiting or under way.", async () => {
    expect(await startedBy(() => stage.add(1, 40))).to.deep.equal([
      ["begin", ...range(1, 20)],
      ["follow", ...range(21, 40)],
    ]);
    await startedBy(() => stage.add(41, 70));
    expect(await startedBy(end)).to.deep.equal([["follow", ...range(41, 65)]]);
  });

  it("takes up to sixteen however few are open.", async () => {
    expect(await startedBy(() => stage.add(1, 20))).to.deep.equal([["begin", ...range(1, 16)]]);
    expect(await startedBy(() => stage.add(21, 32))).to.deep.equal([["follow", ...range(17, 32)]]);
    await startedBy(() => stage.add(33, 48));
    expect(await startedBy(end)).to.deep.equal([["follow", ...range(33, 48)]]);
  });

  it(`takes ${MAX_BATCH} at most.`, async () => {
    const batches = await startedBy(() => stage.add(1, MAX_BATCH * 5));
    expect(batches.map(([way, ...items]) => [way, items.length])).to.deep.equal([
      ["begin", MAX_BATCH],
      ["follow", MAX_BATCH],
    ]);
  });

  it("runs a task alone, after everything before it and before everything behind it.", async () => {
    await startedBy(() => stage.add(1, 8));
    await startedBy(() => stage.add(9, 16));
    void stage.task(17);
    expect(await startedBy(() => stage.add(18, 24))).to.deep.equal([]);
    expect(await startedBy(end)).to.deep.equal([]);
    expect(await startedBy(end)).to.deep.equal([["task", 17]]);
    expect(stage.open).to.have.length(1);
    expect(await startedBy(() => stage.add(25))).to.deep.equal([]);
    expect(await startedBy(end)).to.deep.equal([["begin", ...range(18, 25)]]);
  });

  it("runs tasks that follow each other one by one.", async () => {
    expect(await startedBy(() => [1, 2].map(stage.task))).to.deep.equal([["task", 1]]);
    expect(await startedBy(end)).to.deep.equal([["task", 2]]);
  });

  it("gives the caller what a task came to, and goes on after one that failed.", async () => {
    const failed = stage.queue.run(() => Promise.reject(new RangeError("the task's own")));
    const given = stage.queue.run(async () => "given");
    expect(await failed.catch((error: unknown) => error)).to.be.instanceOf(RangeError);
    expect(await given).to.equal("given");
    expect(await startedBy(() => stage.add(1))).to.deep.equal([["begin", 1]]);
  });

  it("waits for what is under way, then begins, when a batch may not follow.", async () => {
    stage.mayFollow = () => false;
    await startedBy(() => stage.add(1, 8));
    expect(await startedBy(() => stage.add(9, 16))).to.deep.equal([]);
    stage.mayFollow = () => true;
    expect(await startedBy(() => stage.add(17, 24))).to.deep.equal([]);
    expect(await startedBy(end)).to.deep.equal([
      ["begin", ...range(9, 16)],
      ["follow", ...range(17, 24)],
    ]);
  });

  it("runs again what both batches gave back, in their order, before anything new.", async () => {
    await startedBy(() => stage.add(1, 8));
    await startedBy(() => stage.add(9, 16));
    await startedBy(() => stage.add(17, 24));
    expect(await startedBy(() => end(0, range(1, 8)))).to.deep.equal([]);
    expect(await startedBy(() => end(0, range(10, 16)))).to.deep.equal([["again", ...range(1, 8)]]);
    expect(await startedBy(end)).to.deep.equal([["again", ...range(10, 16)]]);
    expect(await startedBy(end)).to.deep.equal([["begin", ...range(17, 24)]]);
  });

  it("keeps that order when the younger batch is over first.", async () => {
    await startedBy(() => stage.add(1, 8));
    await startedBy(() => stage.add(9, 16));
    expect(await startedBy(() => end(1, range(9, 16)))).to.deep.equal([]);
    expect(await startedBy(() => end(0, [7, 8]))).to.deep.equal([["again", 7, 8]]);
    expect(await startedBy(end)).to.deep.equal([["again", ...range(9, 16)]]);
  });

  it("runs again what the younger batch alone gave back, after what followed that meanwhile.", async () => {
    await startedBy(() => stage.add(1, 8));
    await startedBy(() => stage.add(9, 16));
    await startedBy(() => stage.add(17, 24));
    expect(await startedBy(end)).to.deep.equal([["follow", ...range(17, 24)]]);
    expect(await startedBy(() => end(0, range(9, 16)))).to.deep.equal([]);
    expect(await startedBy(() => end(0, range(17, 24)))).to.deep.equal([["again", ...range(9, 16)]]);
    expect(await startedBy(end)).to.deep.equal([["again", ...range(17, 24)]]);
  });

  it("runs again what was given back before a task, and before what may not follow.", async () => {
    await startedBy(() => stage.add(1, 8));
    void stage.task(9);
    expect(await startedBy(() => end(0, [3]))).to.deep.equal([["again", 3]]);
    expect(await startedBy(end)).to.deep.equal([["task", 9]]);
    await startedBy(end);
    stage.mayFollow = () => false;
    await startedBy(() => stage.add(10, 17));
    await startedBy(() => stage.add(18, 25));
    expect(await startedBy(() => end(0, [10]))).to.deep.equal([["again", 10]]);
    expect(await startedBy(end)).to.deep.equal([["begin", ...range(18, 25)]]);
  });

  it("is idle only when nothing is left, what was added meanwhile included.", async () => {
    await stage.queue.idle();
    await startedBy(() => stage.add(1, 8));
    let isIdle = false;
    const idle = stage.queue.idle().then(() => {
      isIdle = true;
    });
    await startedBy(() => stage.add(9, 16));
    void stage.task(17);
    await startedBy(() => end(0, [1]));
    for (const way of ["follow", "again", "task"]) {
      expect([isIdle, stage.open[0]?.way]).to.deep.equal([false, way]);
      await startedBy(end);
    }
    await idle;
    expect(stage.open).to.deep.equal([]);
    await stage.queue.idle();
    expect(await startedBy(() => stage.add(18))).to.deep.equal([["begin", 18]]);
  });

  it("starts everything once and in order, whatever ends when and gives back what.", async () => {
    for (let seed = 1; seed <= SCHEDULES; seed++) await runSchedule(seed, seed % 2 === 0 ? 2 : 4);
  });
});

/** What a schedule has seen of a stage. */
interface Watched {
  /** Batches and tasks that were started, items one by one. */
  readonly first: number[];
  readonly givenBack: number[];
  readonly ranAgain: number[];
}

/** Looks at what was started since: nothing shares the queue with a task or with what runs again. */
function look({ started, open }: Stage, from: number, depth: number, { first, ranAgain }: Watched): void {
  for (const [way, ...items] of started.slice(from)) {
    (way === "again" ? ranAgain : first).push(...items);
    expect(items).to.have.length.within(1, MAX_BATCH);
  }
  expect(open).to.have.length.at.most(depth);
  const [oldest, ...younger] = open;
  if (oldest?.way === "task" || oldest?.way === "again") expect(younger).to.deep.equal([]);
  for (const { way } of younger) expect(way).to.equal("follow");
}

/** Adds, runs and ends at random; what runs again gives nothing back. */
async function runSchedule(seed: number, depth: number): Promise<void> {
  const stage = openStage({ depth: () => depth });
  const below = seededBelow(seed);
  const watched: Watched = { first: [], givenBack: [], ranAgain: [] };
  stage.mayFollow = () => below(5) > 0;
  let added = 0;
  let looked = 0;
  const endOne = (): void => {
    const { way, items, end } = stage.open[below(stage.open.length)] as Open;
    const isGivingBack = (way === "begin" || way === "follow") && below(3) === 0;
    const left = isGivingBack ? items.filter(() => below(3) > 0) : [];
    watched.givenBack.push(...left);
    end(left);
  };
  const act = (): void => {
    const kind = below(10);
    if (kind === 0) void stage.task(++added);
    else if (kind < 5) for (let count = below(15 * depth * depth); count > 0; count--) stage.add(++added);
    else if (stage.open.length > 0) endOne();
  };
  const lookOn = async (): Promise<void> => {
    await turn();
    look(stage, looked, depth, watched);
    looked = stage.started.length;
  };
  for (let step = 0; step < 60; step++) {
    act();
    if (below(3) > 0) await lookOn();
  }
  for (await lookOn(); stage.open.length > 0; await lookOn()) endOne();
  await stage.queue.idle();
  expect(watched.first, `seed ${seed}`).to.deep.equal(range(1, added));
  expect(watched.ranAgain.toSorted((a, b) => a - b)).to.deep.equal(watched.givenBack.toSorted((a, b) => a - b));
}
