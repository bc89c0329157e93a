import { isMap, isScalar, isSeq, type Node } from "yaml";

/** A range of the text, in characters. */
export interface Place {
  readonly from: number;
  readonly to: number;
}

/** Returns the range of a node; undefined for a node without a position. */
export const placeOfNode = (node: unknown): Place | undefined => {
  const range = (node as Node | null | undefined)?.range;
  return range === null || range === undefined ? undefined : { from: range[0], to: Math.max(range[1], range[0] + 1) };
};

/** Finds the range of a member by its path, such as `rules[0].tool`, or of its nearest ancestor in the text. */
export function placeIn(root: Node | null, path: string, length: number): Place {
  let node: unknown = root;
  let place = { from: 0, to: Math.min(1, length) };
  for (const step of path.match(/[^.[\]]+/g) ?? []) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === step);
      if (pair === undefined) return place;
      place = placeOfNode(isScalar(pair.value) ? pair.value : pair.key) ?? place;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(step)];
      const whole = placeOfNode(node);
      // A list item is long: its first characters stand for it.
      place = whole === undefined ? place : { from: whole.from, to: Math.min(whole.to, whole.from + 6) };
    } else return place;
  }
  return place;
}

/** Returns the line of an offset, counted from 1. */
export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split("\n").length;
