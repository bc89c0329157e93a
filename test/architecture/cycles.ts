/** Nodes and what each points at. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>;

/** Follows every way from `node`; gives the first one that comes back to a node on it. */
function circleFrom(node: string, graph: Graph, way: readonly string[], done: Set<string>): readonly string[] {
  const start = way.indexOf(node);
  if (start !== -1) return [...way.slice(start), node];
  if (done.has(node)) return [];
  for (const next of graph.get(node) ?? []) {
    const circle = circleFrom(next, graph, [...way, node], done);
    if (circle.length > 0) return circle;
  }
  done.add(node);
  return [];
}

/** A circle of the graph with its first node again at the end; empty when there is none. */
export function cycleIn(graph: Graph): readonly string[] {
  const done = new Set<string>();
  for (const node of graph.keys()) {
    const circle = circleFrom(node, graph, [], done);
    if (circle.length > 0) return circle;
  }
  return [];
}
