import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect } from "chai";
import { CONFIG_VARIABLES, type Config, ConfigError, loadConfig, readConfig } from "../src/config.ts";

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    expect(error).to.be.instanceOf(ConfigError);
    return (error as ConfigError).problems;
  }
}

const DEFAULTS: Config = {
  configFile: null,
  databaseUrl: null,
  databaseOwnerUrl: null,
  databasePooler: null,
  databaseDirectUrl: null,
  migrates: true,
  redisUrl: null,
  dataDir: ".data",
  adminKey: null,
  metricsToken: null,
  signingKey: null,
  encryptionKey: null,
  encryptionKeyOld: null,
  host: "127.0.0.1",
  httpPort: 7080,
  grpcPort: 7090,
  tlsCert: null,
  tlsKey: null,
  tlsClientCa: null,
  logLevel: "info",
  workers: 1,
  poolSize: 10,
  maxBodyBytes: 1_048_576,
  defaultDeadlineMs: 10_000,
  streamHeartbeatMs: 15_000,
  drainMs: 5_000,
  lameDuckMs: 0,
  checkpointFile: null,
  checkpointUrl: null,
  checkpointToken: null,
  vaultOrigin: "agent-control-plane",
  publicUrl: null,
  corsOrigins: [],
  rateLimitKey: null,
  rateLimitWorkspace: null,
  rateLimitProcess: null,
  oidcIssuer: null,
  oidcClientId: null,
  oidcClientSecret: null,
  oidcScope: "openid profile email",
  oidcGroupsClaim: "groups",
  oidcGroupMap: [],
  oidcLabel: "single sign-on",
  webhookAllow: [],
  pushHosts: ["fcm.googleapis.com", "updates.push.services.mozilla.com", "web.push.apple.com"],
  slackUrl: "https://slack.com/api",
  mcpAllow: [],
  mcpHosts: [],
  mcpHoldMs: 50_000,
  mcpProgressHoldMs: null,
  mcpAnswerMs: 300_000,
  mcpOidcIssuer: null,
  mcpOidcAudience: null,
  mcpOidcAgentClaim: "sub",
  mcpOidcWorkspace: "default",
  mcpOidcScope: null,
  mcpMaxResultBytes: 8_388_608,
  mcpUids: { from: 61_000, to: 61_511 },
  mcpAllowSameUser: false,
  mcpHomes: null,
  mcpPath: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  mcpFolders: [],
  mcpMaxProcesses: 1_024,
  mcpMaxMemoryBytes: 2_147_483_648,
  llmUrl: null,
  llmKey: null,
  guardUrl: null,
  guardModel: null,
  guardKey: null,
  guardDeadlineMs: 5_000,
};
const GUARD = { ACP_GUARD_URL: "https://models.example.com/v1", ACP_GUARD_MODEL: "small-1" };
const OIDC = {
  ACP_PUBLIC_URL: "https://acp.example.com",
  ACP_OIDC_ISSUER: "https://login.example.com/tenant",
  ACP_OIDC_CLIENT_ID: "acp",
  ACP_OIDC_CLIENT_SECRET: "s3cret",
  ACP_OIDC_GROUP_MAP: "admins=default:admin",
};
const withMap = (map: string): Record<string, string> => ({ ...OIDC, ACP_OIDC_GROUP_MAP: map });

const ACCEPTED: readonly { env: Record<string, string>; key: keyof Config; want: unknown }[] = [
  { env: { ACP_MIGRATE: "off" }, key: "migrates", want: false },
  { env: { ACP_HTTP_PORT: "0" }, key: "httpPort", want: 0 },
  { env: { ACP_HTTP_PORT: " 8080 " }, key: "httpPort", want: 8080 },
  { env: { ACP_HTTP_PORT: "" }, key: "httpPort", want: 7080 },
  { env: { ACP_HOST: "::1" }, key: "host", want: "::1" },
  { env: { ACP_HOST: "plane.example.com" }, key: "host", want: "plane.example.com" },
  { env: { ACP_LOG_LEVEL: "DEBUG" }, key: "logLevel", want: "debug" },
  { env: { ACP_WORKERS: "8" }, key: "workers", want: 8 },
  { env: { ACP_POOL_SIZE: "500" }, key: "poolSize", want: 500 },
  { env: { ACP_DRAIN_MS: "0" }, key: "drainMs", want: 0 },
  { env: { ACP_RATE_LIMIT_KEY: "0.5" }, key: "rateLimitKey", want: { perSecond: 0.5, burst: 1 } },
  { env: { ACP_RATE_LIMIT_WORKSPACE: "100:500" }, key: "rateLimitWorkspace", want: { perSecond: 100, burst: 500 } },
  { env: { DATABASE_URL: "postgres://u:p@db/acp" }, key: "lameDuckMs", want: 5_000 },
  { env: { DATABASE_URL: "postgres://u:p@db/acp", ACP_LAME_DUCK_MS: "0" }, key: "lameDuckMs", want: 0 },
  { env: { ACP_LAME_DUCK_MS: "1000" }, key: "lameDuckMs", want: 1_000 },
  { env: { ACP_VAULT_ORIGIN: "log.example.com/a" }, key: "vaultOrigin", want: "log.example.com/a" },
  { env: { ACP_WEBHOOK_ALLOW: "10.0.0.0/8, fd00::/8" }, key: "webhookAllow", want: ["10.0.0.0/8", "fd00::/8"] },
  {
    env: { ACP_PUSH_HOSTS: "*.Notify.windows.com, push.example" },
    key: "pushHosts",
    want: ["*.notify.windows.com", "push.example"],
  },
  { env: { ACP_SLACK_URL: "https://slack-gov.com/api/" }, key: "slackUrl", want: "https://slack-gov.com/api" },
  { env: { ACP_MCP_ALLOW: "127.0.0.0/8" }, key: "mcpAllow", want: ["127.0.0.0/8"] },
  { env: { ACP_MCP_HOSTS: "MCP.example.com, acp" }, key: "mcpHosts", want: ["mcp.example.com", "acp"] },
  { env: { ACP_MCP_HOLD_MS: "0" }, key: "mcpHoldMs", want: 0 },
  {
    env: { ACP_MCP_FOLDERS: "/srv/docs, /srv/files:rw" },
    key: "mcpFolders",
    want: [
      { path: "/srv/docs", isWritable: false },
      { path: "/srv/files", isWritable: true },
    ],
  },
  { env: {}, key: "mcpProgressHoldMs", want: null },
  { env: { ACP_MCP_PROGRESS_HOLD_MS: "90000" }, key: "mcpProgressHoldMs", want: 90_000 },
  { env: GUARD, key: "guardUrl", want: "https://models.example.com/v1" },
  { env: { ...GUARD, ACP_GUARD_URL: "http://[::1]:8000/api/v1" }, key: "guardUrl", want: "http://[::1]:8000/api/v1" },
  { env: GUARD, key: "guardModel", want: "small-1" },
  { env: OIDC, key: "oidcIssuer", want: "https://login.example.com/tenant" },
  { env: { ...OIDC, ACP_OIDC_ISSUER: "http://127.0.0.1:9000" }, key: "oidcIssuer", want: "http://127.0.0.1:9000" },
  { env: { ...OIDC, ACP_OIDC_ISSUER: "http://[::1]:9000/" }, key: "oidcIssuer", want: "http://[::1]:9000/" },
  { env: { ...OIDC, ACP_OIDC_SCOPE: "openid  groups" }, key: "oidcScope", want: "openid groups" },
  {
    env: withMap("/acp/a=b = default:admin, CN=x%2COU=y=pay:operator,25%25=pay:auditor"),
    key: "oidcGroupMap",
    want: [
      { group: "/acp/a=b", workspaceId: "default", role: "admin" },
      { group: "CN=x,OU=y", workspaceId: "pay", role: "operator" },
      { group: "25%", workspaceId: "pay", role: "auditor" },
    ],
  },
  { env: { ACP_GUARD_DEADLINE_MS: "250" }, key: "guardDeadlineMs", want: 250 },
];

const REFUSED: readonly { env: Record<string, string>; want: RegExp }[] = [
  { env: { ...OIDC, ACP_PUBLIC_URL: "" }, want: /^ACP_PUBLIC_URL must be set with ACP_OIDC_ISSUER$/ },
  { env: { ACP_MCP_FOLDERS: "docs" }, want: /^ACP_MCP_FOLDERS must be an absolute path, not `docs`$/ },
  {
    env: { ACP_MCP_FOLDERS: "/srv/a:ro" },
    want: /^ACP_MCP_FOLDERS must be absolute paths, .*; `\/srv\/a:ro` is not one$/,
  },
  ...["/srv/acp/data", "/srv/acp/data/x", "/srv/acp", "/", "/srv/./acp/../acp:rw"].map((folder) => ({
    env: { ACP_DATA_DIR: "/srv/acp/data", ACP_MCP_FOLDERS: `/srv/other,${folder}` },
    want: /^ACP_MCP_FOLDERS must not hold ACP_DATA_DIR, or lie in it: `\/[^`]*`$/,
  })),
  ...["/srv/homes:rw", "/srv/homes/default.files:rw", "/srv:rw"].map((folder) => ({
    env: { ACP_DATA_DIR: "/var/acp", ACP_MCP_HOMES: "/srv/homes", ACP_MCP_FOLDERS: folder },
    want: /^ACP_MCP_FOLDERS must not let commands write to the homes of MCP commands \(ACP_MCP_HOMES\): `/,
  })),
  { env: { ...OIDC, ACP_OIDC_CLIENT_ID: "" }, want: /^ACP_OIDC_CLIENT_ID must be set with ACP_OIDC_ISSUER$/ },
  { env: { ACP_CHECKPOINT_URL: "ftp://hunter2@host" }, want: /^(?!.*hunter)ACP_CHECKPOINT_URL must have the form/ },
  { env: { ACP_CHECKPOINT_URL: "https://u:hunter2@host" }, want: /^(?!.*hunter)ACP_CHECKPOINT_URL must have the form/ },
  { env: { ...OIDC, ACP_OIDC_CLIENT_SECRET: "" }, want: /^ACP_OIDC_CLIENT_SECRET must be set with ACP_OIDC_ISSUER$/ },
  { env: withMap(""), want: /^ACP_OIDC_GROUP_MAP must be set with ACP_OIDC_ISSUER$/ },
  { env: { ACP_OIDC_CLIENT_ID: "acp" }, want: /^ACP_OIDC_CLIENT_ID needs ACP_OIDC_ISSUER$/ },
  { env: { ...OIDC, ACP_OIDC_ISSUER: "http://login.example.com" }, want: /^ACP_OIDC_ISSUER must be an https address/ },
  { env: { ...OIDC, ACP_OIDC_ISSUER: "http://127.evil.example" }, want: /^ACP_OIDC_ISSUER must be an https address/ },
  { env: { ...OIDC, ACP_OIDC_ISSUER: "https://a/b|c" }, want: /^ACP_OIDC_ISSUER must be an https address/ },
  { env: { ...OIDC, ACP_OIDC_ISSUER: "https://a:secret@b" }, want: /^(?!.*secret)ACP_OIDC_ISSUER must be/ },
  {
    env: { ...OIDC, ACP_OIDC_ISSUER: "https://a/.well-known/openid-configuration" },
    want: /^ACP_OIDC_ISSUER must be an https address/,
  },
  { env: { ...OIDC, ACP_OIDC_SCOPE: "profile" }, want: /^ACP_OIDC_SCOPE must be scopes .*`openid`/ },
  { env: { ...OIDC, ACP_OIDC_CLIENT_SECRET: "hunter 2" }, want: /^(?!.*hunter)ACP_OIDC_CLIENT_SECRET must be/ },
  { env: { ...OIDC, ACP_OIDC_LABEL: "a\u202eb" }, want: /^ACP_OIDC_LABEL must be/ },
  ...[
    "admins",
    "=default:admin",
    "a=default",
    "a=default:agent",
    "a=Default:admin",
    "a=default:admin,",
    "%zz=pay:admin",
  ].map((map) => ({ env: withMap(map), want: /^ACP_OIDC_GROUP_MAP must have the form group=workspace:role/ })),
  { env: { ACP_HTTP_PORT: "65536" }, want: /^ACP_HTTP_PORT must be a whole number from 0 to 65535, not `65536`$/ },
  { env: { ACP_HTTP_PORT: "1e3" }, want: /^ACP_HTTP_PORT must be a whole number/ },
  { env: { ACP_GRPC_PORT: "-1" }, want: /^ACP_GRPC_PORT must be a whole number/ },
  { env: { ACP_GRPC_PORT: "7080" }, want: /^ACP_GRPC_PORT must differ from ACP_HTTP_PORT: both are 7080$/ },
  { env: { ACP_WORKERS: "0" }, want: /^ACP_WORKERS must be a whole number from 1 to 128, not `0`$/ },
  { env: { ACP_VAULT_ORIGIN: "https://log.example.com" }, want: /^ACP_VAULT_ORIGIN must be a URL without scheme/ },
  { env: { ACP_VAULT_ORIGIN: "a+b" }, want: /^ACP_VAULT_ORIGIN must be a URL without scheme/ },
  { env: { ACP_POOL_SIZE: "1" }, want: /^ACP_POOL_SIZE must be a whole number from 2 to 500/ },
  { env: { ACP_MAX_BODY_BYTES: "10" }, want: /^ACP_MAX_BODY_BYTES must be a whole number of bytes/ },
  { env: { ACP_HOST: "not a host" }, want: /^ACP_HOST must be an IP address or a host name/ },
  { env: { ACP_LOG_LEVEL: "loud" }, want: /^ACP_LOG_LEVEL must be one of fatal, error, / },
  { env: { ACP_ADMIN_KEY: "short" }, want: /^ACP_ADMIN_KEY must be 16 to 256 printable/ },
  { env: { ACP_METRICS_TOKEN: "short" }, want: /^ACP_METRICS_TOKEN must be 16 to 256 printable/ },
  { env: { ACP_ADMIN_KEY: "with space in the key" }, want: /^ACP_ADMIN_KEY must be/ },
  { env: { ACP_WEBHOOK_ALLOW: "10.0.0.0/33" }, want: /^ACP_WEBHOOK_ALLOW must be CIDR blocks .*`10.0.0.0\/33`/ },
  { env: { ...GUARD, ACP_GUARD_URL: "https://host/v2" }, want: /^ACP_GUARD_URL must have the form https:/ },
  { env: { ...GUARD, ACP_GUARD_URL: "ftp://host/v1" }, want: /^ACP_GUARD_URL must have the form https:/ },
  { env: { ...GUARD, ACP_GUARD_URL: "https://me:secret@host/v1" }, want: /^(?!.*secret)ACP_GUARD_URL must have/ },
  { env: { ...GUARD, ACP_GUARD_URL: "https://host/v1?key=secret" }, want: /^(?!.*secret)ACP_GUARD_URL must have/ },
  { env: { ACP_GUARD_URL: GUARD.ACP_GUARD_URL }, want: /^ACP_GUARD_MODEL must be set with ACP_GUARD_URL$/ },
  { env: { ACP_GUARD_MODEL: "small-1" }, want: /^ACP_GUARD_MODEL needs ACP_GUARD_URL$/ },
  { env: { ACP_GUARD_KEY: "sk-1" }, want: /^ACP_GUARD_KEY needs ACP_GUARD_URL$/ },
  { env: { ...GUARD, ACP_GUARD_MODEL: "two words" }, want: /^ACP_GUARD_MODEL must be 1 to 128 printable/ },
  { env: { ...GUARD, ACP_GUARD_KEY: "line\nsecret" }, want: /^(?!.*secret)ACP_GUARD_KEY must be printable/s },
  { env: { ACP_GUARD_DEADLINE_MS: "1" }, want: /^ACP_GUARD_DEADLINE_MS must be a whole number of milliseconds/ },
  { env: { ACP_ENCRYPTION_KEY: "too short" }, want: /^ACP_ENCRYPTION_KEY must be 32 to 256 printable/ },
  {
    env: { ACP_DATABASE_POOLER: "session", DATABASE_URL: "postgres://u:p@pooler/acp" },
    want: /^ACP_DATABASE_POOLER must be one of transaction, not `session`$/,
  },
  {
    env: { ACP_DATABASE_POOLER: "transaction", DATABASE_URL: "postgres://u:secret@pooler/acp" },
    want: /^(?!.*secret)ACP_DATABASE_DIRECT_URL must be set with ACP_DATABASE_POOLER: notifications do not pass the pooler$/,
  },
  {
    env: { ACP_DATABASE_POOLER: "transaction", ACP_DATABASE_DIRECT_URL: "postgres://u:p@db/acp" },
    want: /^ACP_DATABASE_POOLER needs DATABASE_URL, which leads to the pooler$/,
  },
  {
    env: { DATABASE_URL: "postgres://u:p@db/acp", ACP_DATABASE_DIRECT_URL: "postgres://u:p@db/acp" },
    want: /^ACP_DATABASE_DIRECT_URL needs ACP_DATABASE_POOLER$/,
  },
  {
    env: {
      ACP_DATABASE_POOLER: "transaction",
      DATABASE_URL: "postgres://u:p@pooler/acp",
      ACP_DATABASE_DIRECT_URL: "postgres://other:p@db/acp",
    },
    want: /^ACP_DATABASE_DIRECT_URL must name the login of DATABASE_URL$/,
  },
  {
    env: { ACP_REDACTION_KEY: "a-secret-of-more-than-32-characters" },
    want: /^(?!.*a-secret)ACP_REDACTION_KEY is now called ACP_ENCRYPTION_KEY: set ACP_ENCRYPTION_KEY to the same value$/,
  },
  { env: { ACP_LLM_URL: "https://models.example.com" }, want: /^ACP_LLM_URL must have the form https:/ },
  {
    env: { ACP_DATABASE_OWNER_URL: "postgresql://o:hunter2@host/db" },
    want: /^ACP_DATABASE_OWNER_URL needs DATABASE_URL$/,
  },
  { env: { ACP_DATABASE_OWNER_URL: "hunter2" }, want: /^(?!.*hunter2)ACP_DATABASE_OWNER_URL must have the form/ },
  ...["", "  "].map((empty) => ({
    env: { DATABASE_URL: empty },
    want: /^DATABASE_URL is empty: set it to postgresql:.*, or `unset DATABASE_URL` for the embedded PostgreSQL$/,
  })),
  { env: { DATABASE_URL: "mysql://host/db" }, want: /^DATABASE_URL must have the form postgresql:/ },
  { env: { DATABASE_URL: "postgresql://host" }, want: /^DATABASE_URL must have the form postgresql:/ },
  { env: { REDIS_URL: "http://host:6379" }, want: /^REDIS_URL must have the form redis:/ },
  { env: { REDIS_URL: "redis://host/cache" }, want: /^REDIS_URL must have the form redis:/ },
  {
    env: { ACP_CORS_ORIGINS: "https://a.test,*" },
    want: /^ACP_CORS_ORIGINS must list exact origins, not `\*`: keys are/,
  },
  ...[
    "null",
    "a.test",
    "https://a.test/",
    "https://A.test",
    "https://a.test:443",
    "ws://a.test",
    "https://a.test,",
  ].map((ACP_CORS_ORIGINS) => ({
    env: { ACP_CORS_ORIGINS },
    want: /^ACP_CORS_ORIGINS must list origins as browsers send/,
  })),
  ...["0", "100:0", "-1", "1e3", "100:", "fast"].map((ACP_RATE_LIMIT_PROCESS) => ({
    env: { ACP_RATE_LIMIT_PROCESS },
    want: /^ACP_RATE_LIMIT_PROCESS must be calls per second, such as `100`, or `100:500` for 500 at once/,
  })),
  { env: { ACP_TLS_CERT: "/tls.crt" }, want: /^ACP_TLS_KEY must be set with ACP_TLS_CERT$/ },
  { env: { ACP_TLS_KEY: "/tls.key" }, want: /^ACP_TLS_CERT must be set with ACP_TLS_KEY$/ },
  { env: { ACP_TLS_CLIENT_CA: "/ca.crt" }, want: /^ACP_TLS_CLIENT_CA needs ACP_TLS_CERT and ACP_TLS_KEY$/ },
  {
    env: { ACP_TLS_CERT: "/tls.crt", ACP_TLS_KEY: "/tls.key", ACP_PUBLIC_URL: "http://acp.example.com" },
    want: /^ACP_PUBLIC_URL must begin with https, because ACP_TLS_CERT is set/,
  },
  {
    env: { ACP_TLS_CERT: "/tls.crt", ACP_TLS_KEY: "-----BEGIN PRIVATE KEY-----hunter2" },
    want: /^(?!.*hunter2)ACP_TLS_KEY must be the path of a file in PEM, not its content$/,
  },
];

describe("loadConfig", () => {
  it("gives the documented defaults for an empty environment and ignores foreign variables.", () => {
    expect(loadConfig({ HOME: "/root", PGPORT: "1" })).to.deep.equal(DEFAULTS);
  });

  for (const { env, key, want } of ACCEPTED) {
    it(`reads ${JSON.stringify(env)} as ${JSON.stringify(want)}.`, () => {
      expect(loadConfig(env)[key]).to.deep.equal(want);
    });
  }

  for (const { env, want } of REFUSED) {
    it(`refuses ${JSON.stringify(env)} with a message that says what to change.`, () => {
      const problems = problemsOf(env);
      expect(problems).to.have.length(1);
      expect(problems[0]).to.match(want);
    });
  }

  it("refuses a folder of MCP commands that leads to the data directory by a symbolic link.", () => {
    const folder = mkdtempSync(join(tmpdir(), "acp-config-"));
    try {
      mkdirSync(join(folder, "app/data"), { recursive: true });
      symlinkSync(join(folder, "app"), join(folder, "link"));
      // A data directory that does not exist yet.
      const env = { ACP_DATA_DIR: join(folder, "app/data/new"), ACP_MCP_FOLDERS: `${join(folder, "link")}:rw` };
      expect(problemsOf(env)).to.deep.equal([
        `ACP_MCP_FOLDERS must not hold ACP_DATA_DIR, or lie in it: \`${join(folder, "link")}\``,
      ]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("reports all problems together.", () => {
    const env = { ACP_HTTP_PORT: "x", ACP_POOL_SIZE: "0", ACP_REDACTION_KEY: "x", DATABASE_URL: "nonsense" };
    expect(problemsOf(env).map((line) => line.split(" ")[0])).to.have.members(Object.keys(env));
  });

  it("never repeats a database address in a refusal, since it may hold a password.", () => {
    expect(problemsOf({ DATABASE_URL: "postgres//u:hunter2@host/db" }).join()).not.to.include("hunter2");
  });

  it("prints secrets masked under JSON, inspection and templates, and reveals them on request.", () => {
    const database = "postgresql://owner:hunter2@db:5432/acp?password=hunter2";
    const REDIS_URL = "rediss://user:hunter2@redis:6379/1";
    const config = loadConfig({ DATABASE_URL: database, REDIS_URL, ACP_ADMIN_KEY: "hunter2-hunter2-hunter2" });
    const printed = [
      JSON.stringify(config),
      inspect(config, { depth: 9, showHidden: true }),
      `${config.adminKey}`,
      `${config.databaseUrl}`,
      `${config.redisUrl}`,
    ];
    for (const text of printed) expect(text).to.include("***").and.not.include("hunter2");
    expect(`${config.databaseUrl}`).to.include("owner").and.include("db:5432");
    expect(config.databaseUrl?.reveal()).to.equal(database);
    expect(config.adminKey?.reveal()).to.equal("hunter2-hunter2-hunter2");
  });
});

/** Variables that Kubernetes gives to a container for Services named `acp`, `acp-http`, `acp-grpc` and `acp-mcp-hosts`. */
const KUBERNETES: Readonly<Record<string, string>> = {
  ACP_SERVICE_HOST: "10.0.0.1",
  ACP_SERVICE_PORT: "7080",
  ACP_SERVICE_PORT_HTTP: "7080",
  ACP_PORT: "tcp://10.0.0.1:7080",
  ACP_PORT_8080_TCP: "tcp://10.0.0.1:8080",
  ACP_PORT_8080_TCP_PROTO: "tcp",
  ACP_PORT_8080_TCP_PORT: "8080",
  ACP_PORT_8080_TCP_ADDR: "10.0.0.1",
  ACP_HTTP_SERVICE_HOST: "10.0.0.2",
  ACP_HTTP_PORT_7080_TCP: "tcp://10.0.0.2:7080",
  ACP_MCP_HOSTS_SERVICE_PORT_GRPC_WEB: "7090",
  ACP_MCP_HOSTS_PORT: "udp://10.0.0.3:53",
};

describe("names of other programs", () => {
  it("does not mind what Kubernetes sets for a Service.", () => {
    const { config, warnings, foreignNames } = readConfig(KUBERNETES);
    expect(config).to.deep.equal(DEFAULTS);
    expect([warnings, foreignNames]).to.deep.equal([[], Object.keys(KUBERNETES)]);
  });

  for (const name of ["ACP_HTTP_PORT", "ACP_GRPC_PORT"]) {
    it(`takes ${name} for unset, with a warning, when it is the address of a Service.`, () => {
      const { config, warnings } = readConfig({ [name]: "tcp://10.0.0.1:7080" });
      expect(config).to.deep.equal(DEFAULTS);
      expect(warnings).to.have.length(1);
      expect(warnings[0]).to.match(new RegExp(`^${name} is an address that Kubernetes sets .* 70[89]0 is used$`));
    });
  }

  it("still refuses a wrong port that is no address.", () => {
    expect(problemsOf({ ACP_HTTP_PORT: "http://10.0.0.1:7080" })[0]).to.match(/^ACP_HTTP_PORT must be a whole number/);
  });

  for (const [name, meant] of [
    ["ACP_HTP_PORT", "ACP_HTTP_PORT"],
    ["ACP_HOTS", "ACP_HOST"],
    ["ACP_MAX_BODY_SIZE", "ACP_MAX_BODY_BYTES"],
    ["ACP_ADMINKEY", "ACP_ADMIN_KEY"],
  ] as const) {
    it(`warns of ${name}, which is probably ${meant}, and starts.`, () => {
      const { warnings, foreignNames } = readConfig({ [name]: "1" });
      expect(warnings).to.deep.equal([`${name} is not a setting and has no effect: did you mean ${meant}?`]);
      expect(foreignNames).to.deep.equal([]);
    });
  }

  it("leaves names that resemble none of ours to other programs.", () => {
    const { warnings, foreignNames } = readConfig({ ACP_TEAM_COLOUR_SCHEME: "1", ACP_QUIET_PLEASE: "" });
    expect([warnings, foreignNames]).to.deep.equal([[], ["ACP_TEAM_COLOUR_SCHEME"]]);
  });
});

describe("ACP_CONFIG", () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "acp-config-"));
  });
  after(() => rmSync(folder, { recursive: true }));

  /** Writes a file of settings; returns the environment that names it. */
  function withFile(text: string): { ACP_CONFIG: string } {
    const path = join(folder, "acp.yaml");
    writeFileSync(path, text);
    return { ACP_CONFIG: path };
  }

  it("reads the same settings from a file, with values as the environment holds them, and lists.", () => {
    const env = withFile(
      'ACP_WORKERS: 2\nACP_MCP_ALLOW: [10.0.0.0/8, "fd00::/8"]\nACP_ADMIN_KEY: 0012345678901234567\nACP_LLM_URL:\n',
    );
    const { workers, mcpAllow, adminKey, llmUrl } = loadConfig(env);
    expect([workers, mcpAllow, llmUrl]).to.deep.equal([2, ["10.0.0.0/8", "fd00::/8"], null]);
    expect(adminKey?.reveal()).to.equal("0012345678901234567");
  });

  it("lets the environment win, an empty variable too.", () => {
    const file = withFile("ACP_WORKERS: 2\nACP_POOL_SIZE: 20\nACP_LOG_LEVEL: warn\n");
    const { workers, poolSize, logLevel } = loadConfig({ ...file, ACP_WORKERS: "3", ACP_POOL_SIZE: "" });
    expect([workers, poolSize, logLevel]).to.deep.equal([3, 10, "warn"]);
  });

  it("tells where each setting comes from, with secrets masked.", () => {
    const env = withFile("\nACP_ADMIN_KEY: hunter2-hunter2-hunter2\n");
    const { settings } = readConfig({ ...env, ACP_WORKERS: "2" });
    const of = (name: string) => settings.find((each) => each.name === name);
    expect(of("ACP_ADMIN_KEY")).to.deep.include({ source: `${env.ACP_CONFIG}:2`, shown: "***" });
    expect(of("ACP_WORKERS")).to.deep.include({ source: "environment", shown: "2" });
    expect(of("ACP_HOST")).to.deep.include({ source: "default", shown: "127.0.0.1" });
    expect(JSON.stringify(settings)).not.to.contain("hunter2");
  });

  for (const [text, want] of [
    ["ACP_WORKERS: 2\nACP_WORKER: 3\n", /acp.yaml:2 ACP_WORKER is not a setting: did you mean ACP_WORKERS\?$/],
    ["acp_workers: 2\n", /acp.yaml:1 acp_workers is not a setting: did you mean ACP_WORKERS\?$/],
    ["ACP_SERVICE_HOST: a\n", /acp.yaml:1 ACP_SERVICE_HOST is not a setting$/],
    ["ACP_CONFIG: other.yaml\n", /acp.yaml:1 ACP_CONFIG is not a setting/],
    [
      "ACP_REDACTION_KEY: hunter2\n",
      /acp.yaml:1 ACP_REDACTION_KEY is not a setting; it is now called ACP_ENCRYPTION_KEY$/,
    ],
    ["\nACP_WORKERS: many\n", /^ACP_WORKERS must be a whole number from 1 to 128, not `many` \(.*acp.yaml:2\)$/],
    ["ACP_ADMIN_KEY: {a: hunter2}\n", /acp.yaml:1 ACP_ADMIN_KEY must be a single value or a list of single values$/],
    ["ACP_ADMIN_KEY: hunter2\n  bad: hunter2\n", /acp.yaml:\d is not valid YAML \([A-Z_]+\)$/],
    ["ACP_WORKERS: 1\nACP_WORKERS: 2\n", /acp.yaml:2 is not valid YAML \(DUPLICATE_KEY\)$/],
    ["- ACP_WORKERS\n", /acp.yaml must hold settings, such as `ACP_WORKERS: 2`$/],
    ['DATABASE_URL: ""\n', /^DATABASE_URL is empty/],
  ] as const) {
    it(`refuses ${JSON.stringify(text)} with the line, and without its values.`, () => {
      const problems = problemsOf(withFile(text));
      expect(problems[0]).to.match(want);
      expect(problems.join()).not.to.contain("hunter2");
    });
  }

  it("refuses a file that cannot be read.", () => {
    expect(problemsOf({ ACP_CONFIG: join(folder, "none.yaml") })).to.deep.equal([
      `ACP_CONFIG names a file that cannot be read (ENOENT): \`${join(folder, "none.yaml")}\``,
    ]);
  });

  it("takes an empty file for no settings.", () => {
    for (const text of ["", "# nothing yet\n"]) expect(loadConfig(withFile(text)).workers).to.equal(1);
  });
});

describe("CONFIG_VARIABLES", () => {
  it("lists every setting once, with a meaning and a default that loads.", () => {
    const names = CONFIG_VARIABLES.map(({ name }) => name);
    expect(names).to.have.length(Object.keys(loadConfig({})).length);
    expect(new Set(names).size).to.equal(names.length);
    for (const { meaning } of CONFIG_VARIABLES) expect(meaning).to.not.equal("");
    const written = CONFIG_VARIABLES.flatMap(({ name, default: preset }) => (preset === null ? [] : [[name, preset]]));
    expect(loadConfig(Object.fromEntries(written))).to.deep.equal(DEFAULTS);
  });
});
