import { SharedPot } from "../async/shared-pot.ts";
import { overShare } from "../errors.ts";

/** Child processes of MCP servers. */
const CHILDREN = 512;
/** Sessions at servers with sessions, for stateless clients. */
const BRIDGES = 512;
/** Sessions of clients. */
const SESSIONS = 20_000;

/** Creates the pot of the child processes of MCP servers. */
export function createChildPot(): SharedPot {
  return new SharedPot({
    name: "mcp_children",
    size: CHILDREN,
    unit: "child processes of MCP servers",
    advice: "end MCP sessions with DELETE",
    retryAfterSeconds: 30,
    refuse: overShare,
  });
}

/** Creates the pot of the gateway's own sessions for stateless clients. */
export function createBridgePot(): SharedPot {
  return new SharedPot({
    name: "mcp_bridges",
    size: BRIDGES,
    unit: "sessions for stateless MCP clients",
    advice: "make fewer calls at once",
    retryAfterSeconds: 5,
    refuse: overShare,
  });
}

/** Creates the pot of the sessions of clients. */
export function createSessionPot(size: number = SESSIONS): SharedPot {
  return new SharedPot({
    name: "mcp_sessions",
    size,
    unit: "MCP sessions",
    advice: "end some with DELETE",
    retryAfterSeconds: 60,
    refuse: overShare,
  });
}
