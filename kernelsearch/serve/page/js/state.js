// What the page shows, and its form in the address, so that a view can be shared and Back works.

export const MOST_METHODS = 3;
export const DEPTHS = [10, 20, 50];
export const VIEWS = ["why", "text", "similar"];
const NONE = "none"; // in the address: the first stage alone; an address that says nothing gets the usual methods

/** An empty view. `columns` are the methods beside the first stage (null: the usual ones), `open` the document in the panel. */
export function emptyState() {
  return { index: "", query: "", topic: "", hits: DEPTHS[0], first: {}, columns: null, open: null };
}

// A method and its changed options: klsa~z=5~lambda=0.7
const encodeOptions = (options) =>
  Object.entries(options).map(([name, value]) => `~${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`).join("");

function decodeOptions(pieces) {
  const options = {};
  for (const piece of pieces) {
    const at = piece.indexOf("=");
    if (at < 1) continue;
    const text = decodeURIComponent(piece.slice(at + 1));
    options[decodeURIComponent(piece.slice(0, at))] = valueOf(text);
  }
  return options;
}

function valueOf(text) {
  if (text === "true" || text === "false") return text === "true";
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** The view as the address's search part, "" for an empty one. */
export function toSearch(state) {
  const params = new URLSearchParams();
  if (state.index) params.set("index", state.index);
  if (state.query) params.set("q", state.query);
  if (state.topic) params.set("topic", state.topic);
  if (state.hits !== DEPTHS[0]) params.set("hits", String(state.hits));
  if (Object.keys(state.first).length) params.set("first", encodeOptions(state.first).slice(1));
  for (const column of state.columns ?? []) params.append("m", encodeURIComponent(column.method) + encodeOptions(column.options));
  if (state.columns?.length === 0) params.set("m", NONE);
  if (state.open) {
    params.set("doc", state.open.docid);
    params.set("in", String(state.open.column));
    if (state.open.view !== VIEWS[0]) params.set("view", state.open.view);
  }
  const text = params.toString();
  return text ? `?${text}` : "";
}

/** The view that an address asks for; what can't be read is left out. */
export function fromSearch(search) {
  const params = new URLSearchParams(search);
  const state = emptyState();
  state.index = params.get("index") ?? "";
  state.query = params.get("q") ?? params.get("query") ?? ""; // the API calls it query
  state.topic = params.get("topic") ?? "";
  if (DEPTHS.includes(Number(params.get("hits")))) state.hits = Number(params.get("hits"));
  try {
    if (params.get("first")) state.first = decodeOptions(params.get("first").split("~"));
    const columns = params.getAll("m").filter((text) => text !== NONE).slice(0, MOST_METHODS).map((text) => {
      const [name, ...rest] = text.split("~");
      return { method: decodeURIComponent(name), options: decodeOptions(rest) };
    });
    if (params.has("m")) state.columns = columns;
  } catch {
    state.columns = null; // a mangled address: start with the usual methods
  }
  const column = Number(params.get("in") ?? 0);
  if (params.get("doc") && Number.isInteger(column) && column >= 0 && column <= MOST_METHODS) {
    const view = VIEWS.includes(params.get("view")) ? params.get("view") : VIEWS[0];
    state.open = { docid: params.get("doc"), column, view };
  }
  return state;
}
