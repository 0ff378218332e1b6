/** What the server answers when it does not give what was asked for. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }

  /** Whether the server wants a token. */
  get asksForToken(): boolean {
    return this.status === 401;
  }
}

/** Longest answer, in milliseconds. */
const TIMEOUT = 15_000;

/** The interface of the server. The token is kept here and nowhere else: it ends with the page. */
export class Api {
  private token = "";

  constructor(private readonly base = "/api/v1/") {}

  get hasToken(): boolean {
    return this.token !== "";
  }

  identify(token: string): void {
    this.token = token.trim();
  }

  async get<T>(path: string, query: Record<string, string | undefined> = {}): Promise<T> {
    const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
    const text = new URLSearchParams(given).toString();
    return (await this.ask(`${path}${text ? `?${text}` : ""}`, { method: "GET" })) as T;
  }

  async post<T>(path: string, body: string, type: string): Promise<T> {
    return (await this.ask(path, { method: "POST", body, headers: { "content-type": type } })) as T;
  }

  private async ask(path: string, request: RequestInit): Promise<unknown> {
    const headers = new Headers(request.headers);
    headers.set("accept", "application/json");
    if (this.token) headers.set("authorization", `Bearer ${this.token}`);
    // Answers say themselves that nobody may store them. A mode of the cache here would ask the server for an answer that
    // it does not share among viewers.
    const response = await fetch(`${this.base}${path}`, {
      ...request,
      headers,
      signal: AbortSignal.timeout(TIMEOUT),
    });
    const text = await response.text();
    if (!response.ok) throw new Refused(response.status, reason(response.status, text));
    return text === "" ? undefined : JSON.parse(text);
  }
}

/** Why the server refuses: the error of its answer, or its text. */
export function reason(status: number, text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string" && error !== "") return error;
  } catch {
    // A proxy answers in its own words.
  }
  const line = text.trim().split("\n")[0] ?? "";
  return line !== "" && line.length < 300 && !line.startsWith("<") ? line : `the server answers ${status}`;
}
