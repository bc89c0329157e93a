import { expect } from "chai";
import { isScreenPath } from "../../src/server/dashboard/assets.ts";
import { screenPaths } from "./screen-paths.ts";

describe("the paths of the dashboard's screens", () => {
  it("are served by the service, so that a page can be reloaded and linked to.", () => {
    const paths = screenPaths();
    expect(paths).to.include.members(["/overview", "/agents/:id"]).and.to.have.length.above(20);
    expect(paths.filter((path) => !isScreenPath(path.replace(":id", "x")))).to.deep.equal([]);
  });
});
