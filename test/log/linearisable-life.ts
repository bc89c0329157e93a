import { seededBelow } from "../support/seeded-below.ts";
import { Caller, type Cast } from "./linearisable-caller.ts";
import type { Call } from "./linearisable-calls.ts";
import type { Fleet } from "./linearisable-fleet.ts";
import { drawsFrom } from "./linearisable-rules.ts";

/** The life of a workspace, done by many callers at once. */
export interface Life {
  /** Every call that has ended, in the order of ending. */
  readonly calls: readonly Call[];
  /** Does what callers need before they begin. */
  prepare(): Promise<void>;
  /** Has callers do random steps until a time of `performance.now`. */
  live(atOnce: number, untilMs: number): Promise<void>;
}

const AGENTS = 12;
const DEPARTMENTS = 3;

/** Kinds of calls with their weights. */
const STEPS: readonly [number, (caller: Caller) => Promise<void>][] = [
  [529, (caller) => caller.intercept()],
  [160, (caller) => caller.pay()],
  [80, (caller) => caller.claim()],
  [50, (caller) => caller.report()],
  [60, (caller) => caller.repeat()],
  [60, (caller) => caller.present()],
  [120, (caller) => caller.delegate()],
  [50, (caller) => caller.look()],
  [60, (caller) => caller.lookAfterwards()],
  [30, (caller) => caller.resolve()],
  [14, (caller) => caller.edit()],
  [8, (caller) => caller.extend()],
  [25, (caller) => caller.move()],
  [20, (caller) => caller.publish()],
  [27, (caller) => caller.lend()],
  [5, (caller) => caller.endGrant()],
  [8, (caller) => caller.end()],
  [2, (caller) => caller.register()],
  [4, (caller) => caller.archive()],
];
/** Every step as often as its weight says. */
const DRAWN = STEPS.flatMap(([weight, does]) => Array.from({ length: weight }, () => does));

/** Creates a life without anything in it. The callers draw from the seed; what they meet depends on each other. */
export function createLife(fleet: Fleet, seed: number): Life {
  const cast: Cast = {
    agents: [],
    departments: [],
    mandates: [],
    grants: [],
    escalations: [],
    approved: [],
    asked: [],
    allowed: [],
  };
  const calls: Call[] = [];
  let callers = 0;
  const nextCaller = (): Caller => {
    callers += 1;
    return new Caller(cast, fleet, calls, drawsFrom(seededBelow(seed * 1_000 + callers)), `${seed}-${callers}`);
  };
  return {
    calls,
    async prepare() {
      const founder = nextCaller();
      await founder.introduce();
      for (let count = 0; count < AGENTS; count++) await founder.register();
      for (let count = 0; count < DEPARTMENTS; count++) await founder.found();
      for (let count = 0; count < 2 * AGENTS; count++) await founder.move();
      for (let count = 0; count < 3; count++) await founder.publish();
      for (let count = 0; count < DEPARTMENTS; count++) await founder.lend();
    },
    async live(atOnce, untilMs) {
      const run = async (caller: Caller): Promise<void> => {
        while (performance.now() < untilMs) await caller.draws.pick(DRAWN)(caller);
      };
      await Promise.all(Array.from({ length: atOnce }, () => run(nextCaller())));
    },
  };
}
