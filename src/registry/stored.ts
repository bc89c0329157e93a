/** What every statement of the registry that is made outside a log goes through. */
export { isUniqueViolation, stored } from "../store/store-fault.ts";
