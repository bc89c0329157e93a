/** Milliseconds after the last scroll at which a place is kept: browsers limit the changes of their history. */
const SETTLED_MS = 200;
/** Milliseconds in which content that is read again may grow to the height that a place needs. */
const RESTORE_MS = 4_000;
/** Input of a person, after which nothing scrolls by itself. */
const INPUTS = ["wheel", "touchstart", "pointerdown", "keydown"] as const;

type Places = Readonly<Record<string, unknown>>;

/** Returns the place that the current entry of the browser's history keeps for a part of the page. */
export function placeIn<T>(name: string): T | undefined {
  const state = window.history.state as { readonly places?: Places } | null;
  return state?.places?.[name] as T | undefined;
}

/** Keeps a place in the current entry of the browser's history. */
export function keepPlace(name: string, place: unknown): void {
  const state = window.history.state as { readonly places?: Places } | null;
  if (JSON.stringify(state?.places?.[name]) === JSON.stringify(place)) return;
  window.history.replaceState({ ...state, places: { ...state?.places, [name]: place } }, "");
}

/**
 * Keeps the place of a part of the page in the browser's history, so that Back finds it: before each press, which may lead away,
 * and when scrolling has settled. Returns the function that ends it.
 */
export function followPlace(name: string, scroller: HTMLElement, placeNow: () => unknown): () => void {
  const path = window.location.pathname;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const keep = (): void => {
    clearTimeout(timer);
    if (window.location.pathname === path) keepPlace(name, placeNow());
  };
  const scroll = (): void => {
    clearTimeout(timer);
    timer = setTimeout(keep, SETTLED_MS);
  };
  scroller.addEventListener("scroll", scroll, { passive: true });
  window.addEventListener("click", keep, { capture: true });
  return () => {
    clearTimeout(timer);
    scroller.removeEventListener("scroll", scroll);
    window.removeEventListener("click", keep, { capture: true });
  };
}

/**
 * Calls a function at every frame until it returns true, the person scrolls or presses something, or time is up, and then
 * `onEnd`. Returns the function that ends it without.
 */
export function untilRestored(restore: () => boolean, onEnd: () => void = () => undefined): () => void {
  const deadline = performance.now() + RESTORE_MS;
  let frame = 0;
  const stop = (): void => {
    cancelAnimationFrame(frame);
    for (const input of INPUTS) window.removeEventListener(input, end, { capture: true });
  };
  const end = (): void => {
    stop();
    onEnd();
  };
  const step = (): void => {
    if (restore() || performance.now() > deadline) end();
    else frame = requestAnimationFrame(step);
  };
  for (const input of INPUTS) window.addEventListener(input, end, { capture: true, passive: true });
  step();
  return stop;
}
