// Exits with 0 if the service in this container answers `/healthz`, else with 1. Its certificate is for another name than loopback,
// and a service that asks for a certificate of ours lives too.
import { request as overHttp } from "node:http";
import { request as overTls } from "node:https";

const port = process.env.ACP_HTTP_PORT || "7080";
const [request, protocol] = process.env.ACP_TLS_CERT ? [overTls, "https:"] : [overHttp, "http:"];

request(
  { protocol, host: "127.0.0.1", port, path: "/healthz", rejectUnauthorized: false, timeout: 2_500 },
  (answer) => {
    process.exit(answer.statusCode === 200 ? 0 : 1);
  },
)
  .on("error", ({ code = "" }) => process.exit(code.startsWith("ERR_SSL_") ? 0 : 1))
  .on("timeout", () => process.exit(1))
  .end();
