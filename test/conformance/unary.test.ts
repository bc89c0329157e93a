import { describeUnaryCases } from "./unary.ts";

// Every case on every wire is the long form.
describeUnaryCases("one meaning over REST and another wire in turn", ([rest, ...others], index) =>
  [rest, others[index % Math.max(1, others.length)]].filter((wire) => wire !== undefined),
);
