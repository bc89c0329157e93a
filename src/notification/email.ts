import { isIP } from "node:net";
import type { TargetAnswer, Targets } from "../webhook/target.ts";
import { type EscalationMessage, factsOf } from "./escalation-message.ts";
import { unlinked } from "./plain-text.ts";
import type { SmtpServer } from "./settings.ts";

/** A mail to send. */
export interface Mail {
  /** Local part of `Message-ID`, the same at every attempt. */
  readonly id: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** Result of one attempt to tell a person. */
export interface Told {
  /** Error in one line without personal values; null if the person was told. */
  readonly error: string | null;
  readonly answer: TargetAnswer;
}

/** A mail server with its password. */
export interface MailServer extends SmtpServer {
  readonly password: string | undefined;
}

/** Bounds of one attempt. */
interface SendOptions {
  readonly targets: Targets;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const MAX_SUBJECT = 150;

/** Creates the mail about an escalation. */
export function mailOf(message: EscalationMessage): Pick<Mail, "subject" | "text"> {
  const facts = factsOf(message).map(([name, value]) => `${name}: ${value}`);
  const approved = message.approved === undefined ? [] : ["", "What is to be approved:", "", message.approved];
  const lines = [
    "An action waits for an answer.",
    "",
    ...facts,
    ...approved,
    "",
    "Look at it and answer:",
    message.url,
    "",
  ];
  const subject = unlinked(`Approval wanted: ${message.agent} – ${message.actionType}`, MAX_SUBJECT);
  return { subject, text: lines.join("\n") };
}

const faultOf = (error: string): Told => ({ error, answer: { kind: "fault", error } });

/** Returns the error of a mail server without its words, which may name people. */
function errorFrom(error: unknown): string {
  const { responseCode, code } = error as { readonly responseCode?: number; readonly code?: string };
  if (responseCode !== undefined) return `the mail server answered with ${responseCode}`;
  return `the mail server cannot be used: ${code ?? "the connection failed"}`;
}

/**
 * Sends a mail once, over a connection of its own to an allowed address of the server, under the server's name, and gives up after the
 * timeout, however slowly the server talks. MUST NOT reject. A connection that should be encrypted and is not sends nothing.
 */
export async function sendMail(
  server: MailServer,
  mail: Mail,
  { targets, timeoutMs, signal }: SendOptions,
): Promise<Told> {
  const deadline = AbortSignal.timeout(timeoutMs);
  const told = await sendWithin(server, mail, targets, AbortSignal.any([signal, deadline]));
  if (told.error === null || told.answer.kind === "answer") return told;
  if (signal.aborted) return faultOf("the request was cancelled");
  return deadline.aborted ? faultOf(`no answer within ${timeoutMs} ms`) : told;
}

async function sendWithin(server: MailServer, mail: Mail, targets: Targets, signal: AbortSignal): Promise<Told> {
  const { host, port, security, user, password, from } = server;
  let address: string;
  try {
    const [first] = await targets.addressesOf(host, "smtp.host", signal);
    address = first?.address ?? host;
  } catch (error) {
    return faultOf((error as Error).message);
  }
  // Loaded by the first mail: most services send none.
  const { createTransport } = await import("nodemailer");
  const transport = createTransport({
    host: address,
    port,
    secure: security === "tls",
    requireTLS: security === "starttls",
    ignoreTLS: security === "none",
    tls: { minVersion: "TLSv1.2", ...(isIP(host) === 0 ? { servername: host } : {}) },
    ...(user === "" ? {} : { auth: { user, pass: password ?? "" } }),
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  try {
    const { id, to, subject, text } = mail;
    const domain = from.slice(from.lastIndexOf("@") + 1);
    await transport.sendMail({
      from: { name: "Agent Control Plane", address: from },
      to: { name: "", address: to },
      subject,
      text,
      messageId: `<${id}@${domain}>`,
      headers: { "Auto-Submitted": "auto-generated" },
      textEncoding: "base64",
      signal,
    });
    return { error: null, answer: { kind: "answer", status: 250, retryAfter: undefined } };
  } catch (error) {
    const text = errorFrom(error);
    const { responseCode } = error as { readonly responseCode?: number };
    if (responseCode === undefined) return faultOf(text);
    return { error: text, answer: { kind: "answer", status: responseCode, retryAfter: undefined } };
  } finally {
    transport.close();
  }
}
