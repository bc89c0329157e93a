/*
 * Makes the wall clock of a process wrong by `TEST_CLOCK_SKEW_MS` milliseconds: `Date.now()`, `new Date()` and `Date()`.
 * For `node --import`; it runs before the program and leaves the monotonic clock as it is, as a wrong host clock does.
 */
const skewMs = Number(process.env.TEST_CLOCK_SKEW_MS ?? 0);
const Right = Date;
const now = (): number => Right.now() + skewMs;

globalThis.Date = new Proxy(Right, {
  construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
  apply: (target) => new target(now()).toString(),
  get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
});
