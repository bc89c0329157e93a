/** Returns the address of the page of a session. A decision may name any text as its session. */
export const sessionHref = (sessionId: string): string => `/sessions/${encodeURIComponent(sessionId)}`;
