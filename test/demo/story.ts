import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runAgentctl } from "../../src/cli/run.ts";
import { POT, setPayers } from "./payments.ts";
import { nextAsk, type Person } from "./person.ts";
import { type DemoAgent, LISTINGS_A_MINUTE, SERVER, type Stage, type ToolResult } from "./stage.ts";

/** Tells the story and checks that everything comes out as told. */
export class Story {
  readonly #stage: Stage;
  readonly #person: Person;
  readonly #cleanup: AsyncDisposableStack;
  #chapters = 0;
  /** What came out differently. */
  readonly differences: string[] = [];

  constructor(stage: Stage, person: Person, cleanup: AsyncDisposableStack) {
    this.#stage = stage;
    this.#person = person;
    this.#cleanup = cleanup;
  }

  async tell(): Promise<void> {
    await this.#read();
    const blocked = await this.#blocked();
    await this.#waitForYou();
    await this.#sharedLimit();
    await this.#sharedBudget();
    const certificate = await this.#revoked();
    await this.#proof(blocked, certificate);
  }

  async #read(): Promise<void> {
    const { ada, folder } = this.#stage;
    await this.#chapter("ada has the tools of a real MCP server. Its URL is the gateway's; nothing else changed.");
    const tools = await ada.tools();
    this.#say(`ada lists the tools: ${tools.slice(0, 4).join(", ")} and ${tools.length - 4} more`);
    const read = await this.#call(ada, "read_text_file", { path: join(folder, "note.txt") });
    this.#check(read.text.includes("tea at five"), "the note was read");
  }

  async #blocked(): Promise<string> {
    const { ada, folder } = this.#stage;
    await this.#chapter("ada writes to the vault. A rule on the argument `path` forbids it; the tool never runs.");
    const path = join(folder, "vault", "keys.txt");
    const write = await this.#call(ada, "write_file", { path, content: "stolen" });
    this.#check(write.isError && !existsSync(path), "no file was written, and ada read why");
    return write.decisionId ?? "";
  }

  async #waitForYou(): Promise<void> {
    const { ada, folder, http, adminKey } = this.#stage;
    await this.#chapter("ada changes settings. A person must look at that: the call is held, and you are asked.");
    const path = join(folder, "service.conf");
    const asked = nextAsk(this.#stage);
    const call = this.#call(ada, "write_file", { path, content: "port = 7080" });
    const ask = await asked;
    this.#say(`waiting: \`${ask.tool}\`, because ${ask.reason}`);
    if (!this.#person.isAutomatic) this.#say(`answer here, or at ${http}/escalations with the key ${adminKey}`);
    const wasThere = existsSync(path);
    const { status, where } = await this.#person.answer(ask);
    this.#say(`${status} ${where}`);
    const write = await call;
    const isRun = status === "approved";
    this.#check(
      !wasThere && write.isError === !isRun && existsSync(path) === isRun,
      isRun ? "the held call ran, once, after the approval" : "the call never ran, and ada read your reason",
    );
  }

  async #sharedLimit(): Promise<void> {
    const { ada, bob, folder } = this.#stage;
    await this.#chapter(`ada and bob share a limit of ${LISTINGS_A_MINUTE} listings a minute. They take turns.`);
    const ran: boolean[] = [];
    for (let index = 0; index <= LISTINGS_A_MINUTE; index++) {
      const listing = await this.#call(index % 2 === 0 ? ada : bob, "list_directory", { path: folder });
      ran.push(!listing.isError);
    }
    const isExact = ran.indexOf(false) === LISTINGS_A_MINUTE;
    this.#check(isExact, `the first ${LISTINGS_A_MINUTE} ran and the next did not, although no agent made more than 3`);
  }

  async #sharedBudget(): Promise<void> {
    await this.#chapter(
      `ann, ben and cas pay from one pot of ${POT} EUR. What fails comes back, what nobody knows stays reserved.`,
    );
    const payers = await setPayers(this.#stage, this.#cleanup);
    const pay = async (...[name, amount, bank]: Parameters<typeof payers.pay>) => {
      const payment = await payers.pay(name, amount, bank);
      const failed = bank === undefined ? `blocked (${payment.fault})` : `the bank ${bank}`;
      const ended = payment.fault === undefined ? "it is paid" : failed;
      this.#say(`${name} pays ${amount} EUR: ${ended}; ${await payers.remaining()} EUR still fit`);
      return payment;
    };
    await pay("ann", 60);
    await pay("ben", 30, "refuses");
    const silent = await pay("cas", 40, "is silent");
    const tooMuch = await pay("ann", 5);
    await payers.whenUnknown(silent.decisionId);
    this.#say("nobody knows whether cas paid; you look at the bank's statement: no payment");
    const settled = await this.#agentctl("decisions", "settle", silent.decisionId, "failed");
    const fits = await pay("ann", 5);
    this.#check(
      tooMuch.fault === "AgentBlockedError" && settled && fits.fault === undefined,
      "the pot held, ben's amount came back at once, and cas's when you settled it",
    );
  }

  async #revoked(): Promise<Record<string, unknown>> {
    const { ada, bob, folder, rest } = this.#stage;
    await this.#chapter(
      "ada asks for more settings. Instead of an answer, ada is revoked everywhere, in the middle of the call.",
    );
    const path = join(folder, "other.conf");
    const asked = nextAsk(this.#stage);
    const held = this.#call(ada, "write_file", { path, content: "debug = true" });
    await asked;
    const certificate = await rest("POST", `/v1/enforce/agents/${ada.agentId}/revoke`, { reason: "acts strangely" });
    this.#say(`revoked: certificate ${String(certificate.revocation_id)}, signed`);
    const ended = await held;
    const next = await this.#call(ada, "read_text_file", { path: join(folder, "note.txt") });
    const other = await this.#call(bob, "read_text_file", { path: join(folder, "note.txt") });
    this.#check(
      ended.isError && next.isError && !existsSync(path) && !other.isError,
      "the held call ended without running, ada can do nothing more, and bob works on",
    );
    return certificate;
  }

  async #proof(decisionId: string, certificate: Record<string, unknown>): Promise<void> {
    const { folder } = this.#stage;
    await this.#chapter(
      "The log explains why ada's first write was blocked, and proves that nothing in it was changed.",
    );
    const pinned = ["--jwks", join(folder, "keys.json")];
    await writeFile(join(folder, "keys.json"), JSON.stringify(await this.#stage.rest("GET", "/.well-known/jwks.json")));
    await writeFile(join(folder, "certificate.json"), JSON.stringify(certificate));
    const explained = await this.#agentctl("vault", "explain", decisionId, ...pinned);
    const verified = await this.#agentctl("vault", "verify", ...pinned);
    const certified = await this.#agentctl("certificate", "verify", join(folder, "certificate.json"), ...pinned);
    this.#check(explained && verified && certified, "agentctl verified the log and the certificate");
  }

  /** Runs `agentctl` and shows its report. True if it verified. */
  async #agentctl(...words: string[]): Promise<boolean> {
    const { http, adminKey } = this.#stage;
    this.#say(`$ agentctl ${words.slice(0, 2).join(" ")}`);
    const write = async (text: string): Promise<void> => this.#say(text.trimEnd());
    const code = await runAgentctl(words, {
      env: { AGENTCTL_URL: http, AGENTCTL_KEY: adminKey },
      write,
      note: () => undefined,
      confirm: async () => undefined,
    });
    return code === 0;
  }

  /** Calls a tool as an agent's framework does, and shows what the agent's model reads. */
  async #call(agent: DemoAgent, tool: string, args: Record<string, unknown>): Promise<ToolResult> {
    const shown = JSON.stringify(args).replaceAll(this.#stage.folder, "…");
    this.#say(`${agent.name} calls ${SERVER}.${tool} ${shown}`);
    const result = await agent
      .call(tool, args)
      .catch((error: Error): ToolResult => ({ text: error.message, isError: true, decisionId: undefined }));
    const text = result.text.replaceAll(this.#stage.folder, "…").replaceAll("\n", "\n      ");
    this.#say(`${agent.name} reads: ${text}`);
    return result;
  }

  async #chapter(text: string): Promise<void> {
    await this.#person.pause();
    console.log(`\n${++this.#chapters}. ${text}\n`);
  }

  #say(text: string): void {
    console.log(`   ${text.replaceAll("\n", "\n   ")}`);
  }

  #check(holds: boolean, text: string): void {
    console.log(`   ${holds ? "✓" : "✗ NOT SO:"} ${text}`);
    if (!holds) this.differences.push(text);
  }
}
