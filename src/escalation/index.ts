export { type Escalation, type EscalationFilter, findEscalationPage, getEscalation } from "./escalation.ts";
export { createEscalationFeed, type EscalationChange, type EscalationFeed } from "./feed.ts";
export { type ResolveCommand, resolveEscalation } from "./resolve.ts";
export { type WatchContext, waitEscalation, watchEscalations } from "./watch.ts";
