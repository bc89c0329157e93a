/** Serving state for the health checks on both ports: true while this process accepts calls. */
export class Health {
  readonly #listeners = new Set<(serving: boolean) => void>();
  #serving = false;

  /** False at first. */
  get serving(): boolean {
    return this.#serving;
  }

  /** Changes the state. Setting the same state again calls no listener. */
  set(serving: boolean): void {
    if (serving === this.#serving) return;
    this.#serving = serving;
    for (const listener of this.#listeners) listener(serving);
  }

  /** Calls back on every later change. Returns a function that ends it. */
  watch(listener: (serving: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
