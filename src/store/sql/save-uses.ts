/** Writes the uses of some authority that has not ended; what ends is written with its last figure. Parameters: workspace, ids, uses. */
export const saveUses = {
  name: "save-uses",
  text: `update authority a set uses = u.uses
    from unnest($2::text[], $3::bigint[]) as u (id, uses)
    where a.workspace_id = $1 and a.id = u.id and a.ended_at_ms is null`,
};
