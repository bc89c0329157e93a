/** Locks a person until the transaction ends. Returns the role that an admin gave, and the encrypted refresh token. Parameters: workspace, actor. */
export const lockPerson = {
  name: "lock-person",
  text: "select role, sealed_refresh from person where workspace_id = $1 and actor = $2 for update",
};
