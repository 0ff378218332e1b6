/** Where the reader is: a view and its settings, kept in the fragment of the address so that it can be sent. */
export interface Route {
  view: string;
  settings: URLSearchParams;
}

/** The place that a fragment names. */
export function parse(fragment: string): Route {
  const [view = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  return { view, settings: new URLSearchParams(query) };
}

/** The fragment of a place; settings without a value are left out. */
export function link(view: string, settings: Record<string, string | number | undefined> = {}): string {
  const kept = Object.entries(settings).filter(([, value]) => value !== undefined && value !== "");
  const query = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}
