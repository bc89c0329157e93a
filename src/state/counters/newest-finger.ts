/** Actions in the order of the log, each at a place that stays the same while actions before it leave. */
export interface PlacedActions {
  /** Another object whenever a place may stand for another action than before. */
  readonly layout: object;
  /** Place of the oldest action. */
  readonly first: number;
  /** Place after the newest action. */
  readonly end: number;
  /** Returns the number of the party of the action at a place. */
  partyAt(place: number): number;
}

/**
 * Finger that stays on the nth newest action of a group while actions come and go, so that finding it again costs no more than
 * the actions since. The first time costs the actions between it and the newest.
 */
export class NewestFinger {
  #layout: object | undefined;
  #place = 0;
  #end = 0;
  /** Number of the group's actions from `#place` to before `#end`. */
  #seen = 0;

  /**
   * Returns the place of the nth newest action (from 1) of a group; undefined if there are fewer. MUST be called with the same
   * number and group each time.
   */
  find(actions: PlacedActions, nth: number, isIn: (party: number) => boolean): number | undefined {
    const { first, end } = actions;
    const isInAt = (place: number): number => (isIn(actions.partyAt(place)) ? 1 : 0);
    if (this.#layout !== actions.layout || this.#place < first) {
      this.#layout = actions.layout;
      this.#place = end;
      this.#end = end;
      this.#seen = 0;
    }
    for (; this.#end < end; this.#end += 1) this.#seen += isInAt(this.#end);
    for (; this.#seen > nth; this.#place += 1) this.#seen -= isInAt(this.#place);
    while (this.#seen < nth && this.#place > first) {
      this.#place -= 1;
      this.#seen += isInAt(this.#place);
    }
    if (this.#seen < nth) return undefined;
    while (isInAt(this.#place) === 0) this.#place += 1;
    return this.#place;
  }
}
