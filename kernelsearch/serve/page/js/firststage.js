// The first stage's options: the service has a switch for each model; people choose one model and one kind of feedback.

const MODELS = { BM25: [], "query likelihood, Dirichlet": ["qld"], "query likelihood, Jelinek-Mercer": ["qljm"] };
const FEEDBACK = { none: [], RM3: ["rm3"], Rocchio: ["rocchio"] };
const SWITCHES = ["bm25", "qld", "qljm", "rm3", "rocchio"];

const chosen = (kinds, first) => Object.keys(kinds).find((name) => kinds[name].some((flag) => first[flag])) ?? Object.keys(kinds)[0];

const pseudo = (name, kinds, help) => ({
  name, parameter: name, type: "string", many: false, default: Object.keys(kinds)[0], low: null, high: null, choices: Object.keys(kinds), help,
});

/** What the first stage is called. */
export function firstName(first) {
  const model = { BM25: "BM25", "query likelihood, Dirichlet": "QLD", "query likelihood, Jelinek-Mercer": "QLJM" }[chosen(MODELS, first)];
  const feedback = chosen(FEEDBACK, first);
  return feedback === "none" ? model : `${model} + ${feedback}`;
}

/** The options that have an effect with the chosen model and feedback, from all that the service knows. */
export function firstOptions(all, first) {
  const [model, feedback] = [chosen(MODELS, first), chosen(FEEDBACK, first)];
  const own = { BM25: ["k1", "b"], "query likelihood, Dirichlet": ["mu"], "query likelihood, Jelinek-Mercer": ["lambda"] }[model];
  const prefix = feedback === "none" ? null : `${feedback.toLowerCase()}-`;
  const used = all.filter((option) => own.includes(option.name) || (prefix && option.name.startsWith(prefix)));
  return [
    ...used.filter((option) => own.includes(option.name)),
    pseudo("model", MODELS, "how the first stage ranks"),
    pseudo("feedback", FEEDBACK, "expansion of the query from the best documents"),
    ...used.filter((option) => !own.includes(option.name)),
  ];
}

/** Values for the controls. */
export function firstValues(first) {
  const values = Object.fromEntries(Object.entries(first).filter(([name]) => !SWITCHES.includes(name)));
  for (const [name, kinds] of [["model", MODELS], ["feedback", FEEDBACK]]) {
    if (chosen(kinds, first) !== Object.keys(kinds)[0]) values[name] = chosen(kinds, first);
  }
  return values;
}

/** The first stage's parameters after one control changed; whether other controls are needed now. */
export function changed(first, name, value) {
  const next = { ...first };
  if (name !== "model" && name !== "feedback") {
    if (value === undefined) delete next[name];
    else next[name] = value;
    return { next, rebuild: false };
  }
  const kinds = name === "model" ? MODELS : FEEDBACK;
  for (const flag of Object.values(kinds).flat()) delete next[flag];
  for (const flag of kinds[value] ?? []) next[flag] = true;
  // Options of what is no longer chosen would be refused or have no effect.
  const switches = Object.fromEntries(Object.entries(next).filter(([flag]) => SWITCHES.includes(flag)));
  return { next: switches, rebuild: true };
}
