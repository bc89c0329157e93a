/** A promise with its resolve and reject functions. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/** Creates a promise that is settled from outside: `Promise.withResolvers` for platforms of 2023, such as Node 20. */
export function createDeferred<T>(): Deferred<T> {
  let settle: Omit<Deferred<T>, "promise"> | undefined;
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { promise, ...(settle as unknown as Omit<Deferred<T>, "promise">) };
}

/** Settles as a promise does, or rejects with the signal's reason as soon as it aborts. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: result, resolve, reject } = createDeferred<T>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  return result;
}
