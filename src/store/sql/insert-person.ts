/** Adds a person. Parameters: workspace, id, issuer and subject or nulls, name, role, epoch milliseconds, the key or person that adds them. */
export const insertPerson = {
  name: "insert-person",
  text: `insert into person (workspace_id, person_id, issuer, subject, name, role, created_at_ms, created_by)
    values ($1, $2, $3, $4, $5, $6, $7, $8)`,
};
