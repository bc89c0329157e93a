export { actionDigest } from "./action-digest.ts";
export { decide } from "./decide.ts";
export { createIntercept, type Intercept, type InterceptCommand } from "./intercept.ts";
