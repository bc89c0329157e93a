/**
 * Which entries are decisions, for what reads a stretch of the log in its order. Not `kind = 0`, which would bring in the
 * index `ledger_entry_agent`: without statistics, as after a restore or in a log that grew a moment ago, the planner takes
 * that one and sorts the whole stretch for every page.
 */
export const IS_DECISION = "kind <> 1";
