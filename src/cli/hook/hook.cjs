/*
 * The hook of coding agents, as `agentctl attach` installs it: it sends a tool call to the control plane before the tool runs, and
 * accepts only an answer that is signed with the agent's key. Everything else blocks the call. After the tool it says how that ended and
 * what it answered, and before a prompt reaches the model what a person asks.
 * It is one file without packages, for any Node.js from 20 on.
 *
 *   node hook.cjs CLIENT ENDPOINT HOLD_SECONDS CONNECTION_FILE [tracked | after | prompt | report]
 *
 * CONNECTION_FILE holds `url`, `key` and optionally `agent`, `ca`, and the paths `cert` and `cert_key` of a certificate to show. A path that begins with `~/` lies in the home directory that
 * the system has for this user, whatever HOME says.
 * With `tracked` it decides a call whose end the hook with `after` reports, which stops the agent if it cannot. With `prompt` it tells a
 * prompt, which the model does not get if that fails. With `report` it decides one on trial and prints the whole
 * answer, for `agentctl attach`.
 */
const { createHmac, randomBytes, timingSafeEqual } = require("node:crypto");
const { closeSync, constants, fstatSync, openSync, readFileSync } = require("node:fs");

const EVENT = "PreToolUse";
const MAX_EVENT_BYTES = 16 * 1024 * 1024;
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_CONNECTION_BYTES = 1024 * 1024;
/** Seconds after which the hooks after a tool and before a prompt give up. */
const TELLING_SECONDS = 20;
/** Modes of the hooks that tell something, in place of deciding. */
const TELLING = ["after", "prompt"];
/** Members of an event that are told. What the tool got stays here. */
const TOLD_MEMBERS = ["hook_event_name", "session_id", "tool_use_id", "is_interrupt"];
/** Members of an event with what the agent reads, of which the service keeps digests. */
const CONTENTS = ["tool_response", "error", "prompt"];
/** Bytes of JSON of a content that are sent: the service by default reads requests of 1 MiB. */
const MAX_CONTENT_JSON = 960 * 1024;
/** Characters of JSON, and lists and objects around a value, of a content that is sent as it is; any other is sent as its text. */
const MAX_VALUE_JSON = 256 * 1024;
const MAX_DEPTH = 32;
/** Members with bytes in Base64, which are left out. */
const BYTES_MEMBERS = ["data", "blob", "base64"];
const BASE64 = /^[\w+/=-]{257,}$/;
/** Words of the query by which the service knows whether a call's end is reported, by the mode of the hook. */
const OUTCOMES = new Map([
  ["tracked", "reported"],
  ["report", "cancelled"],
]);
/** Seconds beyond the hold after which the call is blocked. The client waits longer, since it runs the tool when its time is up. */
const GRACE_SECONDS = 30;
const SIGNATURE = /^[0-9a-f]{64}$/;
const KEY = /^[\x21-\x7e]{1,4096}$/;

/** True once the reply is written: the first one holds. */
let isEnded = false;

/** Error whose message is shown to the person and to the model. */
class Blocked extends Error {}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Ends the process after writing a text. Exit code 2 blocks a call in both clients, in Codex only with a text on standard error.
 * @param {NodeJS.WriteStream} stream @param {string} text @param {0 | 1 | 2} code
 */
function end(stream, text, code) {
  if (isEnded) return;
  isEnded = true;
  stream.once("error", () => process.exit(1));
  stream.write(text, () => process.exit(code));
}

/**
 * Blocks the call in the client's own form: Claude Code shows the whole command line beside a text on standard error.
 * @param {unknown} error
 */
function block(error) {
  const why = error instanceof Blocked ? error.message : `the hook failed (${codeOf(error)})`;
  const [client, , , , mode] = process.argv.slice(2);
  if (mode === "after") {
    const stopReason = `Agent Control Plane: ${why}. The tool ran, and what it answered is not known there, so the agent stops.`;
    return end(process.stdout, JSON.stringify({ continue: false, stopReason }), 0);
  }
  const what = mode === "prompt" ? "The model did not get the prompt." : "The tool did not run.";
  const reason = `Agent Control Plane: ${why}. ${what}`;
  if (client !== "claude-code" || mode === "report") return end(process.stderr, `${reason}\n`, 2);
  if (mode === "prompt") return end(process.stdout, JSON.stringify({ decision: "block", reason }), 0);
  const specific = { hookEventName: EVENT, permissionDecision: "deny", permissionDecisionReason: reason };
  end(process.stdout, JSON.stringify({ hookSpecificOutput: specific }), 0);
}

/** Names an error by its code: a message of the system may contain an address or a path. @param {unknown} error */
function codeOf(error) {
  const { code, name } = /** @type {{ code?: unknown, name?: unknown }} */ (error ?? {});
  return String(code ?? name ?? "unknown");
}

/**
 * Reads the event to its end even if it is too large: a client may run the tool if it cannot write the whole event.
 * @returns {Promise<Buffer>}
 */
async function readEvent() {
  const chunks = [];
  let size = 0;
  for await (const chunk of process.stdin) {
    size += chunk.length;
    if (size <= MAX_EVENT_BYTES) chunks.push(chunk);
  }
  if (size > MAX_EVENT_BYTES) throw new Blocked(`the call is larger than ${MAX_EVENT_BYTES} bytes`);
  return Buffer.concat(chunks);
}

/** @param {string} file */
function pathOf(file) {
  if (!file.startsWith("~/")) return file;
  const { userInfo } = require("node:os");
  return `${userInfo().homedir}${file.slice(1)}`;
}

/**
 * Reads the connection file, which only its owner may be able to read and which must be for this endpoint: a project's settings
 * can name another endpoint, but not send the key there.
 * @param {string} path @param {string} endpoint @param {string} client
 */
function readConnection(path, endpoint, client) {
  const again = "run `agentctl attach` again";
  let text = "";
  let descriptor;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const status = fstatSync(descriptor);
    if (!status.isFile() || status.size > MAX_CONNECTION_BYTES)
      throw new Blocked(`\`${path}\` is not a connection file`);
    if (status.uid !== process.getuid?.()) throw new Blocked(`\`${path}\` belongs to another user; ${again}`);
    if ((status.mode & 0o077) !== 0)
      throw new Blocked(`other users can read \`${path}\`; replace the key and ${again}`);
    text = readFileSync(descriptor, "utf8");
  } catch (error) {
    throw error instanceof Blocked ? error : new Blocked(`\`${path}\` cannot be read (${codeOf(error)}); ${again}`);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
  const { url, key, agent, ca, cert, cert_key } = recordFrom(text, `\`${path}\` is damaged; ${again}`);
  if (typeof url !== "string" || `${url}/v1/hooks/${client}` !== endpoint) {
    throw new Blocked(`the key in \`${path}\` is for another control plane than the settings name; ${again}`);
  }
  if (typeof key !== "string" || !KEY.test(key)) throw new Blocked(`\`${path}\` has no usable key; ${again}`);
  return { key, agent: textOf(agent), ca: textOf(ca), cert: textOf(cert), certKey: textOf(cert_key) };
}

/** @param {unknown} value */
const textOf = (value) => (typeof value === "string" ? value : undefined);

/** Reads a file of the certificate that the hook shows. @param {string | undefined} path */
function certificateFrom(path) {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path);
  } catch (error) {
    const cure = "set AGENTCTL_CERT and AGENTCTL_CERT_KEY and run `agentctl attach` again";
    throw new Blocked(`the certificate in \`${path}\` cannot be read (${codeOf(error)}); ${cure}`);
  }
}

/** @param {string} text @param {string} otherwise */
function recordFrom(text, otherwise) {
  try {
    const value = JSON.parse(text);
    if (isRecord(value)) return value;
  } catch {}
  throw new Blocked(otherwise);
}

/**
 * Posts the event and resolves with the body of the answer, once its signature is verified. Follows no redirect and uses no proxy.
 * @param {URL} url @param {ReturnType<typeof readConnection>} connection @param {Buffer} event
 * @returns {Promise<string>}
 */
function ask(url, { key, agent, ca, cert, certKey }, event) {
  const isSecure = url.protocol === "https:";
  const { Agent, request } = isSecure ? require("node:https") : require("node:http");
  const nonce = randomBytes(32).toString("hex");
  const options = {
    method: "POST",
    // An agent of its own: the global one may use a proxy.
    agent: new Agent(),
    headers: {
      "content-type": "application/json",
      "content-length": event.length,
      "x-api-key": key,
      "x-hook-nonce": nonce,
      ...(agent === undefined ? {} : { "x-agent-id": agent }),
    },
    ...(isSecure ? { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca: trusted(ca) }) } : {}),
    ...(isSecure ? { cert: certificateFrom(cert), key: certificateFrom(certKey) } : {}),
  };
  return new Promise((resolve, reject) => {
    const call = request(url, options, (/** @type {import("node:http").IncomingMessage} */ response) => {
      readAnswer(response, key, nonce).then(resolve, reject);
    });
    call.on("error", (/** @type {unknown} */ error) => {
      const cure = isSecure ? cureOf(codeOf(error), cert !== undefined) : "";
      reject(new Blocked(`the control plane at ${url.origin} gave no answer (${codeOf(error)})${cure}`));
    });
    call.end(event);
  });
}

/**
 * Says what to set for the fault of a connection with TLS; empty for a fault of another kind.
 * @param {string} code @param {boolean} hasCertificate
 */
function cureOf(code, hasCertificate) {
  const again = "run `agentctl attach` again";
  if (/SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)/.test(code))
    return `; set NODE_EXTRA_CA_CERTS to a file with the issuer of its certificate and ${again}`;
  const isRefused = /ALERT_(CERTIFICATE_|BAD_CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE)/.test(code);
  if (hasCertificate && (isRefused || /^(ECONNRESET|EPIPE)$/.test(code)))
    return "; the certificate in AGENTCTL_CERT may be of none of the issuers that it takes";
  return isRefused ? `; set AGENTCTL_CERT and AGENTCTL_CERT_KEY and ${again}` : "";
}

/** Certificates of the authorities that Node.js trusts, and those of the connection file. @param {string} ca */
const trusted = (ca) => [...require("node:tls").rootCertificates, ca];

/** @param {import("node:http").IncomingMessage} response @param {string} key @param {string} nonce */
async function readAnswer(response, key, nonce) {
  const { statusCode = 0, headers } = response;
  if (statusCode >= 300 && statusCode < 400)
    throw new Blocked("the answer is a redirect, which the hook does not follow");
  if (statusCode === 401 || statusCode === 403) {
    throw new Blocked(`the control plane refuses the key (status ${statusCode}); run \`agentctl attach\` with another`);
  }
  if (statusCode !== 200) throw new Blocked(`the answer has status ${statusCode}`);
  const chunks = [];
  let size = 0;
  try {
    for await (const chunk of response) {
      size += chunk.length;
      if (size > MAX_ANSWER_BYTES) throw new Blocked(`the answer is larger than ${MAX_ANSWER_BYTES} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    throw error instanceof Blocked ? error : new Blocked(`the answer broke off (${codeOf(error)})`);
  }
  if (!response.complete) throw new Blocked("the answer broke off");
  const body = Buffer.concat(chunks);
  const given = headers["x-hook-signature"];
  const expected = createHmac("sha256", key).update(nonce).update(body).digest();
  if (typeof given !== "string" || !SIGNATURE.test(given) || !timingSafeEqual(Buffer.from(given, "hex"), expected)) {
    throw new Blocked("the answer is not signed with the agent's key, so another program gave it");
  }
  return body.toString("utf8");
}

/**
 * Returns what to print for the client, and the exit code. Throws `Blocked` for an answer of another form, with which the client
 * would run the tool.
 * @param {string} client @param {string} mode @param {Record<string, unknown>} output
 * @returns {{ readonly text: string, readonly code: 0 | 2 }}
 */
function replyOf(client, mode, output) {
  const [name, ...others] = Object.keys(output);
  if (name === undefined) return { text: "", code: 0 };
  if (mode === "prompt") return refusalOf(client, output);
  const specific = output.hookSpecificOutput;
  if (others.length > 0 || !isRecord(specific) || specific.hookEventName !== EVENT) throw unknownForm();
  const { permissionDecision: decision, permissionDecisionReason: reason, updatedInput } = specific;
  const hasReason = typeof reason === "string" && reason.trim() !== "";
  const text = JSON.stringify(output);
  if (decision === "allow" && (updatedInput === undefined ? client === "claude-code" : isRecord(updatedInput))) {
    // Codex cannot read half of a character pair, and would run the tool with the input that the person replaced.
    if (client === "codex" && /\\ud[89a-f]/i.test(text)) throw unknownForm();
    return { text, code: 0 };
  }
  if (decision === "deny" && hasReason)
    return client === "codex" ? { text: `${reason}\n`, code: 2 } : { text, code: 0 };
  if (decision === "ask" && hasReason && client === "claude-code") return { text, code: 0 };
  throw unknownForm();
}

/**
 * Returns what to print for a prompt that the model does not get.
 * @param {string} client @param {Record<string, unknown>} output
 * @returns {{ readonly text: string, readonly code: 0 | 2 }}
 */
function refusalOf(client, output) {
  const { decision, reason, ...others } = output;
  const hasReason = typeof reason === "string" && reason.trim() !== "";
  if (decision !== "block" || !hasReason || Object.keys(others).length > 0) throw unknownForm();
  return client === "codex" ? { text: `${reason}\n`, code: 2 } : { text: JSON.stringify(output), code: 0 };
}

const unknownForm = () => new Blocked("the answer has a form that the hook does not know; run `agentctl attach` again");

/**
 * Returns the part of an event that is told: what happened, and the content that the agent reads, without images and the like.
 * @param {Buffer} given
 */
function toldEventFrom(given) {
  const event = recordFrom(given.toString("utf8"), "the event is not a JSON object");
  /** @type {Record<string, unknown>} */
  const told = {};
  for (const name of TOLD_MEMBERS) if (event[name] !== undefined) told[name] = event[name];
  for (const name of CONTENTS) {
    const content = event[name];
    if (content === undefined) continue;
    const json = JSON.stringify(content, withoutBytes);
    if (typeof content !== "string" && json.length <= MAX_VALUE_JSON && !isDeep(content)) {
      told[name] = JSON.parse(json);
      continue;
    }
    const whole = typeof content === "string" ? content : json;
    const text = cut(whole);
    if (text.length < whole.length) told.is_cut = true;
    // The members of the tool's own result may lie deeper in it, in blocks.
    if (whole !== content) told.is_text = true;
    // The service reads there whether the tool failed.
    told[name] = isRecord(content) && content.isError === true ? { isError: true, text } : text;
  }
  return Buffer.from(JSON.stringify(told));
}

/** @param {string} name @param {unknown} value */
const withoutBytes = (name, value) =>
  BYTES_MEMBERS.includes(name) && typeof value === "string" && BASE64.test(value) ? undefined : value;

/** Cuts a text to what one event may hold, in whose JSON a character takes up to six bytes. @param {string} whole */
function cut(whole) {
  let text = whole.slice(0, MAX_CONTENT_JSON);
  for (;;) {
    const bytes = Buffer.byteLength(JSON.stringify(text));
    if (bytes <= MAX_CONTENT_JSON) return text;
    text = text.slice(0, Math.floor((text.length * MAX_CONTENT_JSON) / bytes) - 1);
  }
}

/** Tests whether a value is nested too deeply to be sent as it is. @param {unknown} value @returns {boolean} */
function isDeep(value, depth = 0) {
  if (typeof value !== "object" || value === null) return false;
  return depth === MAX_DEPTH || Object.values(value).some((each) => isDeep(each, depth + 1));
}

async function main() {
  const [client = "", endpoint = "", hold = "", file = "", mode = ""] = process.argv.slice(2);
  const isHold = /^\d{1,4}$/.test(hold);
  const isTelling = TELLING.includes(mode);
  const seconds = isTelling ? TELLING_SECONDS : (isHold ? Number(hold) : 0) + GRACE_SECONDS;
  const left = seconds * 1_000 - performance.now();
  setTimeout(() => block(new Blocked(`the control plane gave no answer in ${seconds} s`)), Math.max(left, 0));
  const given = await readEvent();
  if (!isHold || !URL.canParse(endpoint)) throw new Blocked("the hook's command line is damaged");
  const url = new URL(endpoint);
  const connection = readConnection(pathOf(file), endpoint, client);
  url.searchParams.set("hold_seconds", hold);
  const outcome = OUTCOMES.get(mode);
  if (outcome !== undefined) url.searchParams.set("outcome", outcome);
  const body = await ask(url, connection, isTelling ? toldEventFrom(given) : given);
  const { output } = recordFrom(body, "the answer is not a JSON object");
  if (!isRecord(output)) throw unknownForm();
  // A fault before the service knew the event is answered as a denial of a call.
  if (isTelling && "hookSpecificOutput" in output) throw new Blocked("the control plane could not read the event");
  if (mode === "after") return Object.keys(output).length === 0 ? end(process.stdout, "", 0) : block(unknownForm());
  const { text, code } = replyOf(client, mode, output);
  if (mode === "report") end(process.stdout, body, 0);
  else end(code === 0 ? process.stdout : process.stderr, text, code);
}

// If the process ends without a text, the command line around the hook writes one.
process.exitCode = 1;
process.on("uncaughtException", block);
main().catch(block);
