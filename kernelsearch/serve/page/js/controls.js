// One control for each option: a slider for a number, a list for choices, a switch for yes and no, a field for the rest.

import { el } from "./dom.js";
import { setting } from "./format.js";
import { START, optionName, reach } from "./ranges.js";

const TICKS = 200; // positions of a logarithmic slider
let serial = 0;

/**
 * A labelled control. `value` is undefined for the default; `change(value)` is called at once, with undefined for the default.
 */
export function control(option, value, change) {
  const id = `option-${++serial}`;
  const current = value ?? option.default ?? START[option.parameter];
  const report = (next) => change(same(next, option.default) ? undefined : next);
  if (option.type === "boolean") return toggle(option, id, current, report);
  if (option.choices) return choice(option, id, current, report);
  if (option.many || current === undefined || current === null || option.type === "string") return field(option, id, value, change);
  return slider(option, id, current, report, value === undefined && option.default === null);
}

const same = (a, b) => a === b || (typeof a === "number" && typeof b === "number" && Math.abs(a - b) < 1e-9);

const labelled = (option, id, ...rest) =>
  el("div", { class: "control", dataset: { option: option.parameter } },
    el("label", { for: id, title: option.help }, optionName(option)), rest,
    el("span", { class: "hidden", id: `${id}-help` }, option.help));

function slider(option, id, current, report, automatic) {
  const { least, most, step, log } = reach(option);
  const shown = el("output", { for: id, class: "option-value" }, setting(current));
  const toPlace = (value) => (log ? Math.round((TICKS * Math.log(Math.max(value, least) / least)) / Math.log(most / least)) : value);
  const toValue = (place) => {
    const value = log ? least * (most / least) ** (place / TICKS) : place;
    return option.type === "integer" ? Math.round(value) : Number(value.toPrecision(3));
  };
  const input = el("input", {
    id, type: "range", "aria-describedby": `${id}-help`,
    min: log ? 0 : least, max: log ? TICKS : most, step: log ? 1 : step,
    oninput: () => {
      const value = toValue(Number(input.value));
      tell(value);
      report(value);
    },
  });
  const tell = (value) => {
    shown.textContent = setting(value);
    input.setAttribute("aria-valuetext", setting(value));
  };
  input.value = String(toPlace(current));
  tell(current);
  if (automatic) {
    shown.textContent = "auto";
    input.setAttribute("aria-valuetext", "auto");
  }
  return labelled(option, id, input, shown);
}

function toggle(option, id, current, report) {
  const input = el("input", { id, type: "checkbox", "aria-describedby": `${id}-help`, checked: Boolean(current), onchange: () => report(input.checked) });
  return labelled(option, id, input);
}

function choice(option, id, current, report) {
  const input = el("select", { id, "aria-describedby": `${id}-help`, onchange: () => report(option.choices[input.selectedIndex]) },
    option.choices.map((item) => el("option", { selected: item === current }, String(item))));
  return labelled(option, id, input);
}

/** Numbers without a default, and lists of numbers; an empty field is the default. */
function field(option, id, value, change) {
  const input = el("input", {
    id, type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-help`,
    placeholder: option.default === null ? "default" : String(option.default),
    onchange: () => {
      const text = input.value.trim();
      change(text === "" ? undefined : option.many || option.type === "string" || Number.isNaN(Number(text)) ? text : Number(text));
    },
  });
  if (value !== undefined) input.value = String(value);
  return labelled(option, id, input);
}

/** The options of a list: the first ones open, the others behind a fold, and a button that restores the defaults. */
export function controls(options, first, values, change) {
  const set = (option) => control(option, values[option.name], (value) => change(option.name, value));
  const front = first.map((name) => options.find((option) => option.name === name)).filter(Boolean);
  const rest = options.filter((option) => !front.includes(option));
  const fold = rest.length
    ? el("details", { class: "more-options", open: rest.some((option) => option.name in values) },
      el("summary", {}, front.length ? "More options" : "Options"), rest.map(set))
    : null;
  return el("div", { class: "controls" }, front.map(set), fold);
}
