/** Reads one entry of a log that is no decision. Parameters: workspace, index. */
export const readChange = {
  name: "read-change",
  text: "select body from ledger_entry where workspace_id = $1 and seq = $2 and kind <> 0",
};
