// Keyboard shortcuts and the theme.

import { byId, setAttr, setText } from "./dom.js";

const KEPT = "stormcell-theme"; // in localStorage
const THEMES = ["auto", "light", "dark"];
const LOOKS = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };

let theme = "auto";

function setTheme(next) {
  theme = THEMES.includes(next) ? next : "auto";
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  setText(byId("theme"), LOOKS[theme]);
  try {
    localStorage.setItem(KEPT, theme);
  } catch (problem) {
    console.info("the browser keeps no theme", problem.name); // private windows may forbid it; the theme then ends with the page
  }
}

function keptTheme() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
}

/** Take the theme that was chosen last, else that of the system. */
export function startTheme() {
  setTheme(keptTheme());
  byId("theme").addEventListener("click", nextTheme);
}

/** Listen to the shortcuts that the help lists. No shortcut changes the run. */
export function listenToKeys(page) {
  const help = byId("help-dialog");
  const actions = {
    "?": () => help.showModal(),
    "/": () => byId("filter").focus(),
    g: () => page.graph.focus(page.graph.tabbed),
    b: () => page.follow(),
    f: () => page.view.fit(),
    "+": () => page.view.zoom(1.25),
    "-": () => page.view.zoom(0.8),
    s: () => byId("system").click(),
    t: nextTheme,
    Escape: () => page.follow(),
  };
  byId("help").addEventListener("click", () => help.showModal());
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input[type=text], input[type=search], input[type=password], select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (isTyping) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  setAttr(byId("help"), "title", "Keyboard shortcuts");
}
