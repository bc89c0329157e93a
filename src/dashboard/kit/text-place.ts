import { isMap, isScalar, isSeq, type Node } from "yaml";

/** A stretch of the text, in characters. */
export interface Place {
  readonly from: number;
  readonly to: number;
}

/** Returns where a node stands; undefined if it stands nowhere. */
export const placeOfNode = (node: unknown): Place | undefined => {
  const range = (node as Node | null | undefined)?.range;
  return range === null || range === undefined ? undefined : { from: range[0], to: Math.max(range[1], range[0] + 1) };
};

/** Finds the place of a member by its path, such as `rules[0].tool`; of the nearest one that is there. */
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
      // An element of a list is long: its first characters stand for it.
      place = whole === undefined ? place : { from: whole.from, to: Math.min(whole.to, whole.from + 6) };
    } else return place;
  }
  return place;
}

/** Counts the line that an offset is in, from 1. */
export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split("\n").length;
