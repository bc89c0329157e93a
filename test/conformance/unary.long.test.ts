import { describeUnaryCases } from "./unary.ts";

describeUnaryCases("one meaning over REST, Connect, gRPC-Web and gRPC", (wires) => wires);
