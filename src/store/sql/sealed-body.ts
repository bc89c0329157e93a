/**
 * The body of an entry as `json`, in statements on `ledger_entry`. An entry of an earlier version may hold U+0000, which JSON can
 * write and PostgreSQL cannot read; it is read as U+FFFD.
 */
export const BODY_AS_JSON = String.raw`replace(body, '\u0000', '\ufffd')::json`;
