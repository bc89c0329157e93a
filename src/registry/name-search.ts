import { comparableName } from "../policy/names.ts";

/**
 * Returns the test whether a name holds every word of a text, in the form in which names compare: without case, invisible characters
 * and compatibility forms. Every name holds an empty text.
 */
export function nameTest(search: string): (name: string) => boolean {
  const words = comparableName(search).split(" ").filter(Boolean);
  if (words.length === 0) return () => true;
  return (name) => {
    const comparable = comparableName(name);
    return words.every((word) => comparable.includes(word));
  };
}
