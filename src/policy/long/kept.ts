/** Maximum number of schemas that the thread for long checks keeps compiled. */
export const KEPT_SCHEMAS = 64;
