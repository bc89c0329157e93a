/** Stores the keys of Web Push of a workspace unless it has some. Parameters: workspace, public key, encrypted private key. */
export const insertPushKey = {
  name: "insert-push-key",
  text: `insert into push_key (workspace_id, public_key, sealed_key) values ($1, $2, $3) on conflict do nothing`,
};

/** Reads the keys of Web Push of a workspace. Parameter: workspace. */
export const readPushKey = {
  name: "read-push-key",
  text: `select public_key as "publicKey", sealed_key as "sealedKey" from push_key where workspace_id = $1`,
};
