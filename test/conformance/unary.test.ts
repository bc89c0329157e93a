import { describeUnaryCases } from "./unary.ts";

// Every case on every wire is the long form.
describeUnaryCases("one meaning over REST, and in every second case over another wire in turn", (wires, index) => {
  const [rest, ...others] = wires;
  if (index % 2 === 0) return wires.slice(0, 1);
  return [rest, others[((index - 1) / 2) % Math.max(1, others.length)]].filter((wire) => wire !== undefined);
});
