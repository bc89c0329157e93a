export {
  type GuardAnswer,
  type GuardUnavailable,
  type GuardVerdict,
  UNAVAILABLE_CAUSES,
  type UnavailableCause,
} from "./answer.ts";
export { createGuard, type Guard, type GuardLog, type GuardOptions } from "./guard.ts";
export type { GuardedAction, GuardQuestion } from "./question.ts";
