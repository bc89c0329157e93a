/** What a browser does with redirects and cookies, so far as a sign-in needs it. */
export interface Visit {
  readonly status: number;
  readonly url: string;
  readonly headers: Headers;
  readonly text: string;
  /** Which fault the page names; undefined for none. */
  readonly fault: string | undefined;
}

/** Cookies by host and name, and requests with them. */
export class TestBrowser {
  readonly cookies = new Map<string, Map<string, string>>();

  /** Requests once, without following a redirect. */
  async request(url: string, init: RequestInit = {}): Promise<Visit> {
    const jar = this.#jarOf(url);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { ...init, redirect: "manual", headers: { cookie, ...init.headers } });
    for (const line of response.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      const at = pair.indexOf("=");
      if (/max-age=0|expires=thu, 01 jan 1970/i.test(line)) jar.delete(pair.slice(0, at));
      else jar.set(pair.slice(0, at), pair.slice(at + 1));
    }
    const text = await response.text();
    return {
      status: response.status,
      url,
      headers: response.headers,
      text,
      fault: /data-fault="([\w-]+)"/.exec(text)?.[1],
    };
  }

  /** Follows redirects until an address that `stop` accepts is to be visited, and gives it; or the last visit. */
  async follow(from: string, stop: (url: string) => boolean = () => false): Promise<Visit> {
    let url = from;
    for (let count = 0; count < 10; count++) {
      const visit = await this.request(url);
      const location = visit.headers.get("location");
      if (location === null) return visit;
      url = new URL(location, url).href;
      if (stop(url)) return { ...visit, url };
    }
    throw new Error(`too many redirects from ${from}`);
  }

  /** The cookies for the host of an address. */
  cookieOf(url: string, name: string): string | undefined {
    return this.#jarOf(url).get(name);
  }

  #jarOf(url: string): Map<string, string> {
    const { host } = new URL(url);
    const jar = this.cookies.get(host) ?? new Map<string, string>();
    this.cookies.set(host, jar);
    return jar;
  }
}
