/** A text that may go on after its end. Detectors read it through `unitAt`, so that it is known when they met the end. */
export interface TextView {
  readonly text: string;
  /** Set when something was asked for that has not come yet. */
  isOpen: boolean;
}

/** The UTF-16 unit at an index; -1 after the end. */
export function unitAt(view: TextView, index: number): number {
  if (index < view.text.length) return view.text.charCodeAt(index);
  view.isOpen = true;
  return -1;
}

/** Units of context before a value that detectors look at. */
export const CONTEXT_LENGTH = 48;

/** The context before an index. */
export function contextBefore({ text }: TextView, index: number): string {
  return text.slice(Math.max(0, index - CONTEXT_LENGTH), index);
}
