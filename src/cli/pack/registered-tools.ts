import { isJsonRecord, type JsonRecord, listAt, textAt } from "../../verify/json.ts";
import { nameKey } from "../name-key.ts";
import type { CallService } from "../service.ts";

/** Most tools of one page. */
const PAGE_SIZE = 500;

/** A registered tool. */
export interface RegisteredTool {
  readonly name: string;
  readonly description: string;
  readonly schema: JsonRecord;
  /** Paths of its arguments. */
  readonly paths: readonly string[];
  readonly provenance: JsonRecord | undefined;
}

/** Reads the registered tools, by the form in which names compare, in the order of their names. */
export async function registeredTools(call: CallService): Promise<ReadonlyMap<string, RegisteredTool>> {
  const tools: RegisteredTool[] = [];
  let token = "";
  do {
    const query = { page_size: PAGE_SIZE, ...(token === "" ? {} : { page_token: token }) };
    const page = await call("/v1/enforce/tools", { query });
    tools.push(...listAt(page, "tools").filter(isJsonRecord).map(toolFrom));
    token = textAt(page, "next_page_token");
  } while (token !== "");
  tools.sort((a, b) => (a.name < b.name ? -1 : 1));
  return new Map(tools.map((tool) => [nameKey(tool.name), tool]));
}

function toolFrom(tool: JsonRecord): RegisteredTool {
  const { input_schema: schema, provenance } = tool;
  return {
    name: textAt(tool, "name"),
    description: textAt(tool, "description"),
    schema: isJsonRecord(schema) ? schema : {},
    paths: listAt(tool, "arguments").map((argument) => textAt(argument, "path")),
    provenance: isJsonRecord(provenance) ? provenance : undefined,
  };
}
