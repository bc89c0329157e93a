/** Writes a count with its noun: `1 member`, `2,000 members`. */
export function countText(count: number | bigint, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${Number(count) === 1 ? one : many}`;
}
