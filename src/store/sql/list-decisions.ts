import { IS_DECISION } from "./is-decision.ts";

const COLUMNS = `leaf_hash as "leafHash", body`;
const WINDOW = "seq >= $2 and seq < $3 and ($4::smallint is null or decision = $4)";

/**
 * A page of decisions, newest first, between two indexes: the primary key read backwards until the page is full. Times
 * never go backwards within a log, so callers turn a span of time into indexes first. Two statements instead of an
 * optional agent, because a plan made for every agent would not use the agent's index.
 * Parameters: workspace, first index, index to stop before, decision or null, most rows.
 */
export const listDecisions = {
  name: "list-decisions",
  text: `select ${COLUMNS} from ledger_entry
    where workspace_id = $1 and ${IS_DECISION} and ${WINDOW} order by seq desc limit $5`,
};

/** The same for one agent, from the index that leads with it. Further parameter: agent. */
export const listDecisionsOfAgent = {
  name: "list-decisions-of-agent",
  text: `select ${COLUMNS} from ledger_entry
    where workspace_id = $1 and kind = 0 and ${WINDOW} and agent_id = $6 order by seq desc limit $5`,
};

/** The size of a log. Parameter: workspace. No row: no such workspace. */
export const readLogSize = {
  name: "read-log-size",
  text: "select seq::float8 as seq from ledger_head where workspace_id = $1",
};
