import { SharedPot } from "../async/shared-pot.ts";
import { overShare } from "../errors.ts";
import { maxHeldBytesFor } from "../server/held-bytes.ts";

/** Child processes of MCP servers. */
const CHILDREN = 512;
/** Sessions at servers with sessions, for stateless clients. */
const BRIDGES = 512;
/** Sessions of clients. */
const SESSIONS = 20_000;

/** Creates the pot of the child processes of MCP servers. */
export function createChildPot(size: number = CHILDREN): SharedPot {
  return new SharedPot({
    name: "mcp_children",
    size,
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

/** Creates the pot of the bytes of outcomes of tasks, of which one has at most `maxResultBytes`. */
export function createTaskPot(maxResultBytes: number, size?: number): SharedPot {
  return new SharedPot({
    name: "mcp_task_bytes",
    size: size ?? maxHeldBytesFor(maxResultBytes),
    unit: "bytes of results of tasks",
    advice: "let fewer calls run as tasks at once",
    retryAfterSeconds: 10,
    refuse: overShare,
  });
}

/** Creates the pot of the bytes of servers' messages, of which one has at most `maxResultBytes`. */
export function createAnswerPot(maxResultBytes: number, size?: number): SharedPot {
  return new SharedPot({
    name: "mcp_answer_bytes",
    size: size ?? maxHeldBytesFor(maxResultBytes),
    unit: "bytes of answers of MCP servers",
    advice: "the request may have taken effect; ask for less at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });
}
