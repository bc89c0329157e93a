import { storeFault } from "../ledger/store-fault.ts";

/** Awaits a statement made outside a log; a database that does not answer is STORE_UNAVAILABLE. */
export async function stored<T>(work: PromiseLike<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw storeFault(error);
  }
}

/** Whether a statement failed because a row of its key exists. */
export { isUniqueViolation } from "../ledger/store-fault.ts";
