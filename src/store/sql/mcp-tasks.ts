/**
 * Records the agent that made a task, and forgets the oldest of its tasks beyond a number. Parameters: workspace, server, agent,
 * digest of the task's id, epoch milliseconds, most tasks of the agent at the server, and the decision whose outcome the end of the
 * task settles, or null.
 */
export const recordMcpTask = {
  name: "record-mcp-task",
  text: `with forgotten as (
      delete from mcp_task where (workspace_id, server, task_digest, agent_id) in (
        select workspace_id, server, task_digest, agent_id from mcp_task
        where workspace_id = $1 and server = $2 and agent_id = $3
        order by created_at_ms desc, task_digest offset ($6::integer - 1)
      )
    )
    insert into mcp_task (workspace_id, server, agent_id, task_digest, created_at_ms, decision_id)
    values ($1, $2, $3, $4, $5::bigint, $7)
    on conflict (workspace_id, server, task_digest, agent_id) do update set decision_id = excluded.decision_id
    where mcp_task.decision_id is null`,
};

/** Takes the decision of a task whose end is to be reported, once. Parameters: workspace, server, agent, digest of the task's id. */
export const takeMcpTaskDecision = {
  name: "take-mcp-task-decision",
  text: `with taken as (
      select decision_id from mcp_task
      where workspace_id = $1 and server = $2 and agent_id = $3 and task_digest = $4 and decision_id is not null
      for update
    )
    update mcp_task set decision_id = null from taken
    where workspace_id = $1 and server = $2 and agent_id = $3 and task_digest = $4
    returning taken.decision_id as "decisionId"`,
};

/** Reads which of some tasks an agent made. Parameters: workspace, server, agent, digests of the tasks' ids. */
export const readMcpTasks = {
  name: "read-mcp-tasks",
  text: `select task_digest as "taskDigest" from mcp_task
    where workspace_id = $1 and server = $2 and agent_id = $3 and task_digest = any($4::text[])`,
};

/** Reads the agents that made a task. Parameters: workspace, server, digest of the task's id. */
export const readMcpTaskOwners = {
  name: "read-mcp-task-owners",
  text: `select agent_id as "agentId" from mcp_task
    where workspace_id = $1 and server = $2 and task_digest = $3 limit 100`,
};

/** Forgets the tasks of a server. Parameters: workspace, server. */
export const forgetMcpTasks = "delete from mcp_task where workspace_id = $1 and server = $2";
