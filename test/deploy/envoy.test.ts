import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { parse } from "yaml";

const FILE = join(import.meta.dirname, "../../src/deploy/envoy/envoy.yaml");
const NGINX = join(import.meta.dirname, "../../src/deploy/nginx/agent-control-plane.conf");

interface Route {
  readonly match: { prefix: string; headers?: readonly [{ string_match: { safe_regex: { regex: string } } }] };
  readonly route: { cluster: string; hash_policy?: readonly { header: { header_name: string } }[] };
}

// Envoy itself is not run here: these are the facts that its example shares with that of nginx, which is.
describe("the example for Envoy", () => {
  const text = readFileSync(FILE, "utf8");
  const { static_resources: all } = parse(text) as {
    static_resources: { listeners: readonly [object]; clusters: readonly { name: string; lb_policy: string }[] };
  };
  const routes = (JSON.stringify(all.listeners).match(/"routes":(\[.*?\])\}\]\}/)?.[1] ?? "[]") as string;
  const [grpc, mcp, rest] = JSON.parse(routes) as [Route, Route, Route];

  it("names clusters that are there.", () => {
    const clusters = all.clusters.map(({ name }) => name);
    expect([grpc, mcp, rest].map(({ route }) => route.cluster)).to.deep.equal(["acp_grpc", "acp_mcp", "acp_http"]);
    expect(clusters).to.include.members(["acp_grpc", "acp_mcp", "acp_http"]);
  });

  it("tells gRPC from gRPC-Web and Connect by the type of the content.", () => {
    const { regex } = grpc.match.headers?.[0].string_match.safe_regex ?? { regex: "" };
    const whole = new RegExp(`^(?:${regex})$`);
    const isGrpc = (type: string): boolean => whole.test(type);
    expect(["application/grpc", "application/grpc+proto", "application/grpc;x=y"].filter(isGrpc)).to.have.length(3);
    expect(["application/grpc-web", "application/grpc-web+proto", "application/proto"].filter(isGrpc)).to.have.length(
      0,
    );
  });

  it("chooses the replica of an MCP client by its key, as nginx does.", () => {
    expect(mcp.match.prefix).to.equal("/mcp/");
    const names = mcp.route.hash_policy?.map(({ header }) => header.header_name);
    expect(names).to.deep.equal(["authorization", "x-api-key"]);
    expect(all.clusters.find(({ name }) => name === "acp_mcp")?.lb_policy).to.equal("RING_HASH");
    expect(readFileSync(NGINX, "utf8")).to.include("hash $http_authorization$http_x_api_key consistent;");
  });
});
